package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Replayer deals with journal entries that were set aside: it stores them, or,
// when the sale has been rebuilt since, claims them again under their own ids.
type Replayer struct {
	store   letterStore
	ledger  port.Decider
	loader  *Loader
	decided func(sluice.SaleID, []sluice.Claim, []sluice.Decision)

	mu    sync.Mutex // guards rests
	rests map[sluice.SaleID]map[int64]rest
}

// rest is how long Pending leaves a letter alone that waits for the store, or
// that could not be replayed.
type rest struct {
	epoch int64 // of the sale, when the letter was replayed: under another one it has no rest
	pause time.Duration
	until time.Time
}

// The first rest, and the longest: of a letter whose claims hold their units and
// wait for the store, and of one whose claims may hold none.
const (
	restFirst   = 200 * time.Millisecond
	restWaiting = time.Minute
	restFailing = 5 * time.Second
)

// letterStore is what a Replayer needs of port.Store.
type letterStore interface {
	port.DeadLetterStore
	Sale(ctx context.Context, id sluice.SaleID) (sluice.Sale, error)
	Claim(ctx context.Context, claim sluice.ClaimID) (sluice.Order, error)
	Insert(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (port.Stored, error)
}

// NewReplayer returns a Replayer. The loader brings in what a sale refuses that is closed, paused or not open. Decided
// receives the ledger's answers to the claims that it makes again, for the server's Memory.
func NewReplayer(
	store letterStore, ledger port.Decider, loader *Loader,
	decided func(sluice.SaleID, []sluice.Claim, []sluice.Decision),
) *Replayer {
	return &Replayer{
		store: store, ledger: ledger, loader: loader, decided: decided, rests: map[sluice.SaleID]map[int64]rest{},
	}
}

// Replayed says what became of the claims of a dead letter.
type Replayed struct {
	Sale  sluice.SaleID
	Saved []sluice.OrderID // stored now or before, or accepted again
	// Lost were refused, because there were no units left for them, or replaced: the buyer has
	// since got another order for the key. Of a letter that lists them as lost already, the order
	// that replaced them is among Saved: for that claim there is nothing more to be done.
	Lost []sluice.OrderID
	// Later wait for a rebuild of the sale, which brings them in or lists them as lost.
	Later []sluice.OrderID
	// Waiting: some were accepted again and are not stored yet, or there are some in Later. The
	// letter stays until the store has them, since the ledger may forget them once more (I5);
	// replay it again then.
	Waiting bool
}

// Replay deals with one dead letter. Claims that cannot be saved stay listed, in
// a dead letter of their own. Replaying twice is harmless: the claim ids are the
// same (I4, I5).
//
// Errors: sluice.ErrDeadLetterNotFound; a *port.ConflictError or another
// error of the store if the letter still cannot be stored.
func (r *Replayer) Replay(ctx context.Context, id int64) (Replayed, error) {
	letter, err := r.store.DeadLetter(ctx, id)
	if err != nil {
		return Replayed{}, err
	}
	if !letter.Resolved.IsZero() {
		return Replayed{}, nil
	}
	claims, err := claimsOf(&letter)
	if err != nil {
		return Replayed{}, &sluice.StateError{
			Sale: letter.Sale, Detail: fmt.Sprintf("dead letter %d is damaged and cannot be replayed: %v", id, err),
		}
	}
	sale, err := r.store.Sale(ctx, letter.Sale)
	if err != nil {
		return Replayed{}, err
	}
	var result Replayed
	if letter.Epoch == sale.Epoch {
		result, err = r.insert(ctx, &letter, claims)
	} else {
		result, err = r.claimAgain(ctx, &letter, &sale, claims)
	}
	result.Sale = sale.ID
	return result, err
}

// insert stores the letter's entry as it is.
func (r *Replayer) insert(ctx context.Context, letter *port.DeadLetter, claims []sluice.Claim) (Replayed, error) {
	entry := port.Entry{
		ID: letter.EntryID, Sale: letter.Sale, Epoch: letter.Epoch, Node: letter.Node, Terms: letter.Terms,
		At: letter.At, FirstSeq: letter.FirstSeq, Claims: claims,
	}
	stored, err := r.store.Insert(ctx, letter.Sale, []port.Entry{entry})
	if err != nil {
		return Replayed{}, err
	}
	result := Replayed{Lost: stored.Rejected}
	for i := range claims {
		if !slices.Contains(stored.Rejected, claims[i].Order) {
			result.Saved = append(result.Saved, claims[i].Order)
		}
	}
	return result, r.store.ResolveDeadLetter(ctx, letter.ID, "stored")
}

// claimAgain asks the ledger for the units again, for those claims of an older epoch that are not
// stored. They were accepted in time: if the sale refuses them because it is closed,
// paused or not open, or for the cooldown of a return (SoldOut), a rebuild takes them up, or a later try does.
func (r *Replayer) claimAgain(ctx context.Context, letter *port.DeadLetter, sale *sluice.Sale, claims []sluice.Claim) (
	result Replayed, err error,
) {
	var open, lost []sluice.Claim
	listed := strings.HasPrefix(letter.Reason, lostReason)
	for i := range claims {
		order, err := r.store.Claim(ctx, sluice.ClaimID{Sale: letter.Sale, Buyer: claims[i].Buyer, Key: claims[i].Key})
		switch {
		case err == nil && (order.ID == claims[i].Order || listed):
			result.Saved = append(result.Saved, order.ID)
		case err == nil:
			open = append(open, claims[i]) // the ledger will say that it is replaced
		case errors.Is(err, sluice.ErrOrderNotFound):
			open = append(open, claims[i])
		default:
			return Replayed{}, err
		}
	}
	if len(open) == 0 {
		return result, r.store.ResolveDeadLetter(ctx, letter.ID, "every claim has its order in the store")
	}
	decisions, err := r.ledger.Claim(ctx, letter.Sale, open)
	if err != nil {
		return Replayed{}, err
	}
	r.decided(letter.Sale, open, decisions)
	why, overtaken := "", []sluice.Claim(nil)
	for i := range decisions {
		switch d := &decisions[i]; {
		case d.Code == sluice.Accepted && d.Order == open[i].Order:
			result.Saved, result.Waiting = append(result.Saved, open[i].Order), true
			continue
		case d.Code == sluice.Unavailable:
			return Replayed{}, fmt.Errorf("settle: dead letter %d: the sale is not available now; try again later", letter.ID)
		case d.Code == sluice.Accepted: // the buyer has meanwhile got another order for the key
			why = replaced
		default:
			why = d.Code.String()
			if d.Code == sluice.NotOpen || d.Code == sluice.Closed || d.Code == sluice.Paused || d.Code == sluice.SoldOut {
				overtaken = append(overtaken, open[i])
			}
		}
		result.Lost = append(result.Lost, open[i].Order)
		lost = append(lost, open[i])
	}
	if len(overtaken) > 0 && !listed {
		if held, err := r.loader.rebuildFor(ctx, sale, letter.ID, overtaken); held || err != nil {
			result.Later, result.Lost, result.Waiting = result.Lost, nil, true
			return result, err
		}
	}
	if result.Waiting {
		return result, nil // what is lost is listed in the same letter until then
	}
	if len(lost) > 0 && !listed {
		if err := r.store.SetAside(ctx, lostOf(letter, lost, why)); err != nil {
			return Replayed{}, err
		}
	} else if len(lost) > 0 {
		return result, nil // it is listed already
	}
	return result, r.store.ResolveDeadLetter(ctx, letter.ID, "claimed again")
}

// Pending replays every dead letter of an older epoch, the promises of the lost
// epoch, but those that list what is lost, and those that rest: one that waits for
// the store, or fails, is replayed less and less often, and holds up no other.
// Again is when the first of these is due; zero: there are none. The error is of
// those that failed; without again, the letters could not be listed.
func (r *Replayer) Pending(ctx context.Context, sale *sluice.Sale) (again time.Time, err error) {
	letters, err := r.store.DeadLetters(ctx, sale.ID)
	if err != nil {
		return time.Time{}, err
	}
	r.mu.Lock()
	before := r.rests[sale.ID]
	r.mu.Unlock()
	rests, moved := map[int64]rest{}, promisedIn(letters, sale.Epoch)
	for i := range letters {
		l := &letters[i]
		if !promises(l) || l.Epoch >= sale.Epoch {
			continue
		}
		claims, damaged := claimsOf(l)
		if damaged != nil {
			continue
		}
		if !slices.ContainsFunc(claims, func(c sluice.Claim) bool { return !moved[c.Order] }) {
			err = errors.Join(err, r.store.ResolveDeadLetter(ctx, l.ID, "its claims are in letters of a later epoch"))
			continue // set aside a second time, after the load had moved the first
		}
		rest := before[l.ID]
		if rest.epoch != sale.Epoch {
			rest.epoch, rest.pause, rest.until = sale.Epoch, 0, time.Now()
		}
		if ctx.Err() == nil && !time.Now().Before(rest.until) {
			replayed, failed := r.Replay(ctx, l.ID)
			longest := restWaiting
			switch {
			case failed != nil:
				longest, err = restFailing, errors.Join(err, failed)
			case !replayed.Waiting:
				continue
			}
			rest.pause = min(max(2*rest.pause, restFirst), longest)
			rest.until = time.Now().Add(rest.pause)
		}
		if rests[l.ID] = rest; again.IsZero() || rest.until.Before(again) {
			again = rest.until
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rests[sale.ID] = rests; len(rests) == 0 {
		delete(r.rests, sale.ID)
	}
	return again, err
}
