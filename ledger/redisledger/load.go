package redisledger

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A load goes in calls of at most this many fields or bytes, so that claims on
// other sales never wait long for it.
const (
	loadFields = 200
	loadBytes  = 256 << 10
)

// Load implements port.Keeper. The sale is fenced from the first call on,
// and cannot be unfenced before the last, so a load that breaks off in the
// middle leaves nothing that decides claims.
//
// Journal entries that were not acknowledged are not in the new journal.
// They are kept in a stream of their own (keys.aside), as evidence.
func (l *Ledger) Load(ctx context.Context, image port.LoadImage) (err error) {
	defer wrap(&err, "load sale=%s epoch=%d", image.Sale, image.Epoch)
	if err := l.writable(); err != nil {
		return err
	}
	buyers, err := gather(&image)
	if err != nil {
		return err
	}
	if seen := l.receivedOf(image.Sale).epoch; seen > image.Epoch { // what was accepted then is not forgotten
		return &port.EpochError{Seen: seen}
	}
	epoch := strconv.FormatInt(image.Epoch, 10)
	if err := l.loadBegin(ctx, &image, epoch); err != nil {
		return err
	}

	args, bytes := []string{epoch}, 0
	flush := func() error {
		err := l.loadRecords(ctx, image.Sale, args)
		args, bytes = args[:1], 0
		return err
	}
	add := func(field, value string) error {
		args, bytes = append(args, field, value), bytes+len(field)+len(value)
		if len(args) < 2*loadFields && bytes < loadBytes {
			return nil
		}
		return flush()
	}
	for buyer, b := range buyers {
		if err := b.fields(buyer, add); err != nil {
			return err
		}
	}
	for name, units := range countersIn(&image) {
		if err := add("\n"+name, strconv.FormatInt(units, 10)); err != nil {
			return err
		}
	}
	// The sentinel goes in last and says that all of them are there.
	args = append(args, sentinel, epoch)
	if err := flush(); err != nil {
		return err
	}
	l.known(image.Sale).advance(received{epoch: image.Epoch})
	return nil
}

func (l *Ledger) loadBegin(ctx context.Context, image *port.LoadImage, epoch string) error {
	t := &image.Terms
	args := []string{
		epoch, group,
		"format", thisFormat, "epoch", epoch, "seq", strconv.FormatInt(image.Seq(), 10),
		"entries", "0", "taken", strconv.FormatInt(image.Taken, 10),
		"fence", port.FenceLoading, "calm_until", "0", "calm_code", "0",
		"terms", strconv.FormatInt(t.Version, 10),
	}
	for i, name := range [...]string{"total", "max_buyer", "max_orders", "opens", "closes", "paused", "max_unpaid"} {
		args = append(args, name, termsArgs(t)[i])
	}
	keys := []string{
		l.keys.sale(image.Sale), l.keys.buyers(image.Sale), l.keys.journal(image.Sale),
		l.keys.aside(image.Sale, image.Epoch),
	}
	done, err := l.runInt(ctx, loadBeginScript, keys, args)
	if err == nil && done == 0 {
		err = port.ErrStaleEpoch
	}
	return err
}

func (l *Ledger) loadRecords(ctx context.Context, sale sluice.SaleID, args []string) error {
	done, err := l.runInt(ctx, loadRecordsScript, []string{l.keys.sale(sale), l.keys.buyers(sale)}, args)
	if err == nil && done == 0 {
		err = fmt.Errorf("another load has taken over: %w", port.ErrStaleEpoch)
	}
	return err
}

// termsArgs are the terms as the sale hash has them: total, max_buyer,
// max_orders, opens, closes (0: never), paused, max_unpaid (0: no limit).
func termsArgs(t *sluice.Terms) [7]string {
	closes, paused := "0", "0"
	if !t.ClosesAt.IsZero() {
		closes = millis(t.ClosesAt)
	}
	if t.Paused {
		paused = "1"
	}
	return [...]string{
		strconv.FormatInt(t.Total, 10), strconv.FormatInt(t.MaxPerBuyer, 10), strconv.FormatInt(t.MaxOrders, 10),
		millis(t.OpensAt), closes, paused, strconv.FormatInt(t.MaxUnpaid, 10),
	}
}

// buyerImage is one buyer's record while it is put together.
type buyerImage struct {
	sluice.Account
	claims []*port.Record
}

// gather puts the records of the image together by buyer, and refuses an image
// that no ledger could have produced, before anything is changed.
func gather(image *port.LoadImage) (map[sluice.BuyerID]*buyerImage, error) {
	if err := image.Sale.Validate(); err != nil {
		return nil, err
	}
	if image.Epoch < 1 || image.Epoch > port.MaxEpoch {
		return nil, fmt.Errorf("epoch %d: want 1 to %d", image.Epoch, int64(port.MaxEpoch))
	}
	buyers := make(map[sluice.BuyerID]*buyerImage)
	keys := make(map[sluice.ClaimID]struct{}, len(image.Records))
	for i := range image.Records {
		r := &image.Records[i]
		if err := r.Claim.Validate(); err != nil {
			return nil, fmt.Errorf("record of order %s: %w", r.Order, err)
		}
		id := sluice.ClaimID{Buyer: r.Buyer, Key: r.Key}
		if _, twice := keys[id]; twice {
			return nil, fmt.Errorf("record of order %s: another record has its buyer and key", r.Order)
		}
		keys[id] = struct{}{}
		b := buyers[r.Buyer]
		if b == nil {
			b = &buyerImage{}
			buyers[r.Buyer] = b
		}
		b.claims = append(b.claims, r)
		if b.Orders++; r.Live {
			b.Units += r.Quantity
		}
		if r.Unpaid {
			b.Unpaid++
		}
	}
	return buyers, nil
}

// countersIn returns how many live units of the image each counter has.
func countersIn(image *port.LoadImage) map[string]int64 {
	units := map[string]int64{}
	for i := range image.Records {
		r := &image.Records[i]
		for _, c := range r.Counters.List() {
			if r.Live {
				units[c.Name] += r.Quantity
			}
		}
	}
	return units
}

// fields calls add with the fields of the buyers hash that hold the claims.
func (b *buyerImage) fields(buyer sluice.BuyerID, add func(field, value string) error) error {
	before := sluice.Key("")
	for _, r := range b.claims[1:] {
		value := string(appendRecord(nil, r)) + "\n" + string(before)
		if err := add(string(buyer)+"\n"+string(r.Key), value); err != nil {
			return err
		}
		before = r.Key
	}
	value := appendRecord(append(appendHead(nil, b.Account), '\n'), b.claims[0])
	if before != "" {
		value = append(append(value, '\n'), before...)
	}
	return add(string(buyer), string(value))
}
