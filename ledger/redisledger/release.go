package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Release implements port.Releaser. Up to 250 releases of one epoch are one
// call of the script, up to 1,000 one transaction, as with claims. After an
// error some of them may have been applied; given again, those change nothing
// (I6).
func (l *Ledger) Release(
	ctx context.Context, sale sluice.SaleID, releases []port.Release,
) (answer port.Released, err error) {
	defer wrap(&err, "release sale=%s", sale)
	if err := l.writable(); err != nil || len(releases) == 0 {
		return answer, err
	}
	calls, highest := byEpoch(releases)
	have := l.known(sale).get()
	args := make([][]string, len(calls))
	for i := range calls {
		args[i] = l.releaseArgs(have, highest, calls[i])
	}
	replies, err := l.runBatches(ctx, releaseScript, l.keys.of(sale), args)
	if err != nil {
		return answer, err
	}
	for i := range replies {
		if err := l.released(sale, highest, calls[i], replies[i], &answer); err != nil {
			return port.Released{}, err
		}
	}
	return answer, nil
}

// released adds what the reply to a call says.
func (l *Ledger) released(sale sluice.SaleID, highest int64, call []port.Release, message rueidis.RedisMessage,
	answer *port.Released,
) error {
	reply, err := parseReleaseReply(message)
	if err != nil {
		return err
	}
	switch reply.state {
	case notLoaded:
		return port.ErrNotLoaded
	case newerFormat:
		return errors.New("this server is older than the sale's data: its format is a later one")
	case lost:
		return fmt.Errorf("the sale has lost data: %w", port.ErrStaleEpoch)
	}
	l.known(sale).advance(received{epoch: reply.epoch, seen: reply.seq})
	switch reply.state {
	case fenced:
		return fmt.Errorf("the sale is fenced: %w", port.ErrStaleEpoch)
	case laterEpoch:
		return fmt.Errorf("epoch %d, the ledger holds %d: %w", highest, reply.epoch, port.ErrStaleEpoch)
	}
	return reply.addTo(answer, call)
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

// releaseArgs builds the arguments of release.lua; its header explains them.
func (l *Ledger) releaseArgs(m received, highest int64, releases []port.Release) []string {
	n := len(releases)
	args := l.appendAsker(make([]string, 0, 12+3*n), m)
	args = append(args, strconv.FormatInt(releases[0].Epoch, 10), strconv.FormatInt(highest, 10), strconv.Itoa(n))
	for i := range releases {
		args = append(args, string(releases[i].Buyer))
	}
	for i := range releases {
		args = append(args, string(releases[i].Buyer)+"\n"+string(releases[i].Key))
	}
	for i := range releases {
		r := &releases[i]
		args = append(args, string(r.Buyer)+"\t"+string(r.Key)+"\t"+string(r.Order)+"\t")
	}
	unpaid := make([]byte, n)
	for i := range releases {
		unpaid[i] = '0'
		if releases[i].Unpaid {
			unpaid[i] = '1'
		}
	}
	return append(args, string(unpaid))
}

// releaseReply is a reply of release.lua.
type releaseReply struct {
	state   int64
	epoch   int64
	seq     int64
	ended   int64
	before  int64
	unknown []rueidis.RedisMessage // positions, from 1
}

func parseReleaseReply(message rueidis.RedisMessage) (releaseReply, error) {
	var r releaseReply
	parts, err := message.ToArray()
	if err != nil {
		return r, err
	}
	if len(parts) != 1 && len(parts) < 5 {
		return r, fmt.Errorf("reply of %d parts", len(parts))
	}
	for i, number := range []*int64{&r.state, &r.epoch, &r.seq, &r.ended, &r.before}[:min(len(parts), 5)] {
		if *number, err = parts[i].AsInt64(); err != nil {
			return r, err
		}
	}
	r.unknown = parts[min(len(parts), 5):]
	return r, nil
}

// addTo adds what the script did with these releases.
func (r *releaseReply) addTo(answer *port.Released, releases []port.Release) error {
	if n := int(r.ended) + int(r.before) + len(r.unknown); n != len(releases) {
		return fmt.Errorf("reply on %d of %d releases", n, len(releases))
	}
	for i := range r.unknown {
		at, err := r.unknown[i].AsInt64()
		if err != nil || at < 1 || at > int64(len(releases)) {
			return fmt.Errorf("release %d of %d is unknown: %w", at, len(releases), err)
		}
		answer.Unknown = append(answer.Unknown, releases[at-1].Order)
	}
	answer.Applied += int(r.ended)
	answer.Before += int(r.before)
	return nil
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
