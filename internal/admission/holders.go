package admission

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// holders is who has accepted claims of a sale, as hashes of buyer ids: the
// buyers whom a server must not refuse by itself, since their attempt may be
// the repeat of an accepted one (I4). It covers the claims of an epoch up to a
// sequence; with any later claim accepted, it is of no use and fetched again.
//
// Two buyers with one hash cost a call to the ledger, nothing else.
type holders struct {
	epoch, seq int64
	buyers     map[uint64]struct{}
}

var holderSeed = maphash.MakeSeed()

func hashBuyer(b sluice.BuyerID) uint64 { return maphash.String(holderSeed, string(b)) }

// covers reports whether everybody with an accepted claim at this reading is
// in the set.
func (h *holders) covers(r *port.Reading) bool {
	if r.Epoch == 1 && r.Seq == 0 {
		return true // the first load of a sale brings no claims, and none came since
	}
	return h != nil && h.epoch == r.Epoch && h.seq >= r.Seq
}

func (h *holders) has(b sluice.BuyerID) bool {
	if h == nil {
		return false
	}
	_, ok := h.buyers[hashBuyer(b)]
	return ok
}

// A set is read whole, so with many holders it costs the ledger something:
// after a fetch the next one of the sale waits for holdersRest, or holdersShare
// times as long as the fetch took. Meanwhile the ledger refuses.
const (
	holdersRest  = time.Second
	holdersShare = 20
)

// fetchHolders reads the holders of a sale in the background, once at a time.
// The caller holds mu.
func (b *Board) fetchHolders(e *boardSale, r port.Reading) {
	begun := time.Now()
	if e.fetching || begun.Before(e.fetchNext) || b.life.Err() != nil {
		return
	}
	e.fetching = true
	b.calls.Go(func() {
		ctx, cancel := context.WithTimeout(b.life, time.Minute)
		defer cancel()
		h, err := fetchHolders(ctx, b.ledger, &r)
		b.mu.Lock()
		defer b.mu.Unlock()
		now := time.Now()
		e.fetching, e.fetchNext = false, now.Add(max(holdersRest, holdersShare*now.Sub(begun)))
		if b.life.Err() != nil {
			return
		}
		if err != nil {
			b.opts.Log.Warn("the holders of a sale cannot be read", "sale", r.Sale, "error", err)
			return
		}
		e.holders = h
		b.Wake(r.Sale)
	})
}

// fetchHolders reads the set that covers the reading: a buyer accepted before
// the reading is in it, since the set is read afterwards.
func fetchHolders(ctx context.Context, ledger port.Reader, r *port.Reading) (*holders, error) {
	h := &holders{epoch: r.Epoch, seq: r.Seq, buyers: make(map[uint64]struct{}, r.Seq)}
	err := ledger.Holders(ctx, r.Sale, func(b sluice.BuyerID) bool {
		h.buyers[hashBuyer(b)] = struct{}{}
		return true
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}
