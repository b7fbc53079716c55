package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Apply implements port.Keeper. A total below the units taken is
// sluice.ErrBelowTaken, and nothing changes (I1). The server reads the sale and decides whether
// it reopens; apply.lua applies the terms as far as that is still so.
func (l *Ledger) Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
	if err := l.writable(); err != nil {
		return err
	}
	for range maxTrips {
		readings, err := l.Read(ctx, []sluice.SaleID{sale})
		if err != nil {
			return err
		}
		r := &readings[0]
		if r.Loaded && r.Epoch == epoch && r.Terms.Version >= terms.Version {
			return nil
		}
		until := ""
		if at := alikeUntil(&r.Terms, &terms, r.Now); !at.IsZero() {
			until = millis(at)
		}
		fields := termsArgs(&terms)
		args := append([]string{
			strconv.FormatInt(epoch, 10), l.now(), until, strconv.FormatInt(r.Terms.Version, 10),
			oneIf(r.Terms.Available(r.Taken) == 0), oneIf(r.Terms.Lowers(terms.Total)),
			strconv.FormatInt(sluice.RefusalLease.Milliseconds(), 10),
			strconv.Itoa(int(r.Terms.Reopens(&terms, r.Taken, r.Now))), strconv.FormatInt(terms.Version, 10),
		}, fields[:]...)
		err = l.keep(ctx, "apply", applyScript, sale, epoch, []string{l.keys.sale(sale)}, args, sluice.ErrBelowTaken)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("redisledger: apply sale=%s: %w", sale, errChanged)
}

// errChanged: the sale is not as it was read, and nothing was done.
var errChanged = errors.New("the sale changed again and again")

// alikeUntil returns the first moment after now from which on other terms may reopen a sale
// that they do not reopen now, or the other way round; zero if there is none.
func alikeUntil(before, after *sluice.Terms, now time.Time) (first time.Time) {
	for _, at := range []time.Time{
		before.OpensAt, before.ClosesAt, after.OpensAt, after.ClosesAt,
		after.OpensAt.Add(time.Millisecond - sluice.RefusalLease), // no earlier does every server know in time
	} {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// Fence implements port.Keeper. With Options.WaitReplicas it returns when the
// replicas have it, and with it all that was accepted before: a rebuild stores what
// it then reads, and takes nothing from a primary that others may have replaced
// (I4, I5).
func (l *Ledger) Fence(ctx context.Context, sale sluice.SaleID, epoch int64, reason string) error {
	reason = strings.ToValidUTF8(reason, "?")
	if reason == "" {
		return fmt.Errorf("redisledger: fence sale=%s: want a reason", sale)
	}
	args := []string{strconv.FormatInt(epoch, 10), reason}
	return l.keep(ctx, "fence", fenceScript, sale, epoch, []string{l.keys.sale(sale)}, args, nil)
}

// errIncomplete: what the sale was loaded with is not, or no longer, all there.
var errIncomplete = errors.New("the records of the sale are not complete; load it under a higher epoch")

// Unfence implements port.Keeper. A sale whose load did not end, or whose
// records are gone, stays fenced, and that is an error.
func (l *Ledger) Unfence(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	args := []string{strconv.FormatInt(epoch, 10)}
	return l.keep(ctx, "unfence", unfenceScript, sale, epoch, []string{l.keys.sale(sale), l.keys.buyers(sale)}, args,
		errIncomplete)
}

// keep runs a script of the Keeper. What they return means the same for all,
// but for -2.
func (l *Ledger) keep(ctx context.Context, what string, s *script, sale sluice.SaleID, epoch int64, keys, args []string,
	minusTwo error,
) (err error) {
	defer wrap(&err, "%s sale=%s epoch=%d", what, sale, epoch)
	if err := l.writable(); err != nil {
		return err
	}
	run := l.runInt
	if s == fenceScript && l.opts.WaitReplicas > 0 {
		run = l.runWaiting
	}
	done, err := run(ctx, s, keys, args)
	switch {
	case err != nil:
		return err
	case done == 0:
		return port.ErrNotLoaded
	case done == -1:
		return port.ErrStaleEpoch
	case done == -2:
		return minusTwo
	case done == 2:
		return errChanged
	}
	return nil
}

// runInt calls a script that returns a number.
func (l *Ledger) runInt(ctx context.Context, s *script, keys, args []string) (int64, error) {
	message, err := l.run(ctx, s, keys, args)
	if err != nil {
		return 0, err
	}
	return message.AsInt64()
}

// runWaiting is runInt, and waits for the replicas.
func (l *Ledger) runWaiting(ctx context.Context, s *script, keys, args []string) (int64, error) {
	messages, err := l.runBatches(ctx, s, keys, [][]string{args})
	if err != nil {
		return 0, err
	}
	return messages[0].AsInt64()
}
