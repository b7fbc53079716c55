package redisledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Release implements port.Releaser. The server reads the claims and their buyers, and release.lua
// ends those that still are as they were read. Up to 250 releases of one epoch are one step. After
// an error some of them may have been applied; given again, those change nothing (I6).
func (l *Ledger) Release(
	ctx context.Context, sale sluice.SaleID, releases []port.Release,
) (answer port.Released, err error) {
	defer wrap(&err, "release sale=%s", sale)
	if err := l.writable(); err != nil || len(releases) == 0 {
		return answer, err
	}
	calls, highest := byEpoch(releases)
	for _, call := range calls {
		if err := l.release(ctx, sale, highest, call, 0, &answer); err != nil {
			return port.Released{}, err
		}
	}
	return answer, nil
}

// release gives releases of one epoch, and adds what comes of them. Tries is how often others
// were faster.
func (l *Ledger) release(ctx context.Context, sale sluice.SaleID, highest int64, releases []port.Release, tries int,
	answer *port.Released,
) error {
	args := make([]string, 0, 1+2*len(releases))
	args = append(args, "fields")
	for i := range releases {
		buyer := string(releases[i].Buyer)
		args = append(args, buyer, buyer+"\n"+string(releases[i].Key))
	}
	p, err := l.page(ctx, sale, args...)
	if err != nil || p.fence != "" {
		return l.notReleased(ctx, sale, err)
	}
	switch epoch := atoi(p.epoch); {
	case highest > epoch:
		return fmt.Errorf("epoch %d, the ledger holds %d: %w", highest, epoch, port.ErrStaleEpoch)
	case releases[0].Epoch < epoch: // I6: counted when the sale was loaded
		answer.Before += len(releases)
		return nil
	}
	e := endings{
		sale: sale, taken: takenOf(&p), values: p.values(), accounts: map[sluice.BuyerID]*account{},
		counters: map[string]int64{},
	}
	if err := e.end(releases); err != nil {
		fence := damagedRecord
		if errors.Is(err, errMoreUnits) {
			fence = port.FenceLost + ": " + errMoreUnits.Error()
		}
		l.fenceLost(ctx, &port.Reading{Sale: sale, Epoch: atoi(p.epoch), Fence: fence})
		return fmt.Errorf("%w: %w", err, port.ErrStaleEpoch)
	}
	done, err := l.ended(ctx, sale, atoi(p.epoch), &e)
	if err != nil {
		return err
	}
	if done {
		answer.Applied += e.ended
		answer.Before += e.before
		answer.Unknown = append(answer.Unknown, e.unknown...)
		return nil
	}
	if sells, err := l.look(ctx, sale); err != nil || !sells {
		return l.notReleased(ctx, sale, err)
	}
	// Another server was faster with one of them: halves, so that one buyer does not hold up
	// the others.
	if tries == 2*maxTrips {
		return fmt.Errorf("outcome unknown: overtaken %d times", tries)
	}
	for half := range slices.Chunk(releases, (len(releases)+1)/2) {
		if err := l.release(ctx, sale, highest, half, tries+1, answer); err != nil {
			return err
		}
	}
	return nil
}

// takenOf returns the units taken that a page of fields has. Damage of that number, the script finds.
func takenOf(p *page) int64 {
	if taken, ok := number(p.next); ok && taken >= 0 {
		return taken
	}
	return math.MaxInt64
}

// notReleased says why a sale takes no releases. What it has lost, its reading finds, and
// fences it.
func (l *Ledger) notReleased(ctx context.Context, sale sluice.SaleID, err error) error {
	if err != nil && !errors.Is(err, port.ErrNotLoaded) {
		return err
	}
	readings, err := l.Read(ctx, []sluice.SaleID{sale})
	switch {
	case err != nil:
		return err
	case !readings[0].Loaded:
		return port.ErrNotLoaded
	}
	return fmt.Errorf("the sale is fenced (%s): %w", readings[0].Fence, port.ErrStaleEpoch)
}

// endings is what releases change in the buyers hash.
type endings struct {
	sale     sluice.SaleID
	values   map[string]string // of fields, as they were read
	accounts map[sluice.BuyerID]*account
	changes  [][2]string // of further claims: field, and what it becomes
	units    int64
	counters map[string]int64 // of the units, those that a counter has
	taken    int64            // by the sale, when they were read

	ended, before int
	unknown       []sluice.OrderID
}

// end ends the claims that are live. What no server writes so is an error.
func (e *endings) end(releases []port.Release) error {
	over := map[sluice.OrderID]bool{}
	for i := range releases {
		r := &releases[i]
		field := string(r.Buyer) + "\n" + string(r.Key)
		head, known := e.values[string(r.Buyer)]
		value, further := e.values[field]
		a := e.accounts[r.Buyer]
		switch {
		case !known && further:
			return errAccount(r.Buyer, value)
		case !known:
			e.unknown = append(e.unknown, r.Order)
			continue
		case a == nil:
			read, err := parseAccount(e.sale, r.Buyer, head)
			if err != nil {
				return err
			}
			a, e.accounts[r.Buyer] = &read, &read
		}
		claim, found, err := a.claim(e.sale, r.Key, value, further)
		if err != nil {
			return err
		}
		switch {
		case !found:
			e.unknown = append(e.unknown, r.Order)
			continue
		case claim.Order != r.Order:
			e.unknown = append(e.unknown, r.Order)
			continue
		case !claim.Live || over[r.Order]:
			e.before++
			continue
		}
		over[r.Order] = true
		e.ended++
		e.units += claim.Quantity
		for _, c := range claim.Counters.List() {
			e.counters[c.Name] += claim.Quantity
		}
		if a.Units -= claim.Quantity; a.Units < 0 || e.units > e.taken {
			return errMoreUnits
		}
		before, _, _ := cutLast(claim.line)
		line := before + "\t0"
		if r.Unpaid {
			line += "u"
			a.Unpaid++
		}
		if !further {
			a.first.line = line
		} else {
			_, link, _ := strings.Cut(value, "\n")
			e.changes = append(e.changes, [2]string{field, line + "\n" + link})
		}
	}
	return nil
}

var errMoreUnits = errors.New("more units of a buyer end than are on record")

// ended ends the claims, and reports whether all was as it had been read.
func (l *Ledger) ended(ctx context.Context, sale sluice.SaleID, epoch int64, e *endings) (bool, error) {
	changes := e.changes
	for buyer, a := range e.accounts {
		if text := a.text(); text != e.values[string(buyer)] {
			changes = append(changes, [2]string{string(buyer), text})
		}
	}
	have := l.known(sale).get()
	if have.epoch != epoch {
		have = received{epoch: epoch}
	}
	args := l.appendAsker(make([]string, 0, 12+4*len(changes)), have, "")
	var counters []byte
	for name, units := range e.counters {
		counters = append(strconv.AppendInt(append(append(counters, name...), '\t'), units, 10), '\n')
	}
	args = append(args, strconv.FormatInt(e.units, 10), strconv.Itoa(len(changes)), string(counters))
	for _, c := range changes {
		args = append(args, c[0])
	}
	for _, c := range changes {
		args = append(args, e.values[c[0]])
	}
	for _, c := range changes {
		args = append(args, c[0], c[1])
	}
	replies, err := l.runBatches(ctx, releaseScript, l.keys.of(sale), [][]string{args})
	if err != nil {
		return false, err
	}
	parts, err := replies[0].AsIntSlice()
	if err != nil {
		return false, err
	}
	switch len(parts) {
	case 2:
		l.known(sale).advance(received{epoch: epoch, seen: parts[1]})
	case 3:
		l.mistaken(ctx, sale, have, parts[1], parts[2])
	}
	return len(parts) == 2, nil
}

// byEpoch cuts the releases into calls of one epoch each, and returns the
// highest epoch: if it is later than the ledger's, none of the calls does
// anything.
func byEpoch(releases []port.Release) (calls [][]port.Release, highest int64) {
	for _, r := range releases {
		highest = max(highest, r.Epoch)
		// Nearly always the last call; an older epoch only after a rebuild.
		i := len(calls) - 1
		for i >= 0 && (calls[i][0].Epoch != r.Epoch || len(calls[i]) == maxBatch) {
			i--
		}
		if i < 0 {
			i, calls = len(calls), append(calls, make([]port.Release, 0, min(len(releases), maxBatch)))
		}
		calls[i] = append(calls[i], r)
	}
	return calls, highest
}

// errEntriesWait: what is in the journal may be nowhere else.
var errEntriesWait = errors.New("entries of the sale wait in the journal")

// Drop implements port.Keeper. Journals that were kept aside by loads (see
// keys.aside) go too. They go last, so that a Drop that breaks off in the
// middle is finished by the next one.
func (l *Ledger) Drop(ctx context.Context, sale sluice.SaleID, epoch int64) (err error) {
	defer wrap(&err, "drop sale=%s epoch=%d", sale, epoch)
	if err := l.writable(); err != nil {
		return err
	}
	done, err := l.runInt(ctx, dropScript, l.keys.of(sale), []string{strconv.FormatInt(epoch, 10)})
	switch {
	case err != nil:
		return err
	case done == -1:
		return port.ErrStaleEpoch
	case done == -2:
		return errEntriesWait
	}
	// A later sale by this name begins from nothing.
	l.sales.Delete(sale)
	l.cursors.Delete(sale)
	return l.dropAside(ctx, sale, epoch)
}

// asideCount is how many keys go in one command of dropAside.
const asideCount = 500

// dropAside removes the journals that loads up to this epoch have kept aside.
// Which there are is not on record; a sale has few epochs, and asking for a
// key that is not there is cheap.
func (l *Ledger) dropAside(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	var keys []string
	for at := epoch; at >= 1; at-- {
		keys = append(keys, l.keys.aside(sale, at))
		if len(keys) < asideCount && at > 1 {
			continue
		}
		if err := l.do(ctx, l.client.B().Unlink().Key(keys...).Build()).Error(); err != nil {
			return l.explain(err)
		}
		keys = keys[:0]
	}
	return nil
}
