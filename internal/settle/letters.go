package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// promises reports whether a dead letter does not only list what is lost.
func promises(letter *port.DeadLetter) bool {
	return letter.Epoch >= 1 && !strings.HasPrefix(letter.Reason, lostReason)
}

// claimsOf returns the claims of a dead letter. No server writes one that is damaged: it is for a person.
func claimsOf(letter *port.DeadLetter) ([]sluice.Claim, error) {
	claims, err := port.ParseClaims(letter.Claims)
	if err == nil && (letter.Epoch < 1 || letter.Terms < 1 || letter.At.IsZero() || len(claims) == 0) {
		err = errors.New("its claims cannot be read")
	}
	return claims, err
}

// lostReason starts the reason of a dead letter whose claims were refused when a load or a
// replay took them up. It lists what could not be saved, by order id.
const lostReason = "promise lost"

// replaced is why a claim is lost whose buyer had no answer and asked again with its key.
const replaced = "the buyer has another order for the key"

// lostOf returns the letter that lists claims of another that cannot be saved.
func lostOf(letter *port.DeadLetter, claims []sluice.Claim, why string) port.DeadLetter {
	entry := port.Entry{
		ID: letter.EntryID + "/lost", Sale: letter.Sale, Epoch: letter.Epoch, Node: letter.Node, Terms: letter.Terms,
		At: letter.At, FirstSeq: letter.FirstSeq, Claims: claims,
	}
	return entry.DeadLetter(fmt.Errorf("%s: %s", lostReason, why))
}

// promisedIn returns the orders that letters of an epoch promise; of any epoch, if it is 0.
func promisedIn(letters []port.DeadLetter, epoch int64) map[sluice.OrderID]bool {
	orders := map[sluice.OrderID]bool{}
	for i := range letters {
		if !promises(&letters[i]) || epoch != 0 && letters[i].Epoch != epoch {
			continue
		}
		claims, _ := port.ParseClaims(letters[i].Claims) // damaged: which is unknown
		for j := range claims {
			orders[claims[j].Order] = true
		}
	}
	return orders
}

// promised is a dead letter whose claims may be loaded.
type promised struct {
	port.DeadLetter
	claims []sluice.Claim
	live   bool // the ledger has one of them on record, and holds its units
}

// bring adds the claims of dead letters to what is loaded, with places in the new
// epoch: no other buyer can get their units (I4, I5), and nothing of them waits in the
// journal, where the database would refuse them again. Those that the ledger counts
// come first, then the others in the order in which they were accepted, as far as the
// total covers them. A claim that it does not cover is listed as lost. The other letters move to
// the new epoch, or are resolved, if the database takes their orders now.
//
// A letter is read after the image. It is resolved only when its orders are stored or
// in another letter, so a load that breaks off and is repeated finds all of them. A finished
// load leaves none behind but those that came since it began.
func (l *Loader) bring(ctx context.Context, image *port.LoadImage) error {
	letters, err := l.waiting(ctx, image)
	if err != nil || len(letters) == 0 {
		return err
	}
	room, seq := newRoom(image), image.Seq()
	for i := range letters {
		letter, why := &letters[i], ""
		entry := port.Entry{
			ID: fmt.Sprintf("letter/%d", letter.ID), Sale: image.Sale, Epoch: image.Epoch, Node: letter.Node,
			Terms: letter.Terms, At: letter.At, FirstSeq: seq + 1,
		}
		var lost []sluice.Claim
		for j := range letter.claims {
			c := &letter.claims[j]
			if room.known[c.Order] {
				continue
			}
			if refused := room.take(c); refused != "" {
				lost, why = append(lost, *c), refused
				continue
			}
			entry.Claims = append(entry.Claims, *c)
		}
		if err := l.move(ctx, &entry, letter.Reason); err != nil {
			return err
		}
		for j := range entry.Claims {
			image.Records = append(image.Records, entry.Record(j))
			image.Taken += entry.Claims[j].Quantity
		}
		seq += int64(len(entry.Claims))
		if len(lost) > 0 {
			if err := l.store.SetAside(ctx, lostOf(&letter.DeadLetter, lost, why)); err != nil {
				return err
			}
		}
		how := fmt.Sprintf("its claims are stored, lost, or in letters of epoch %d", image.Epoch)
		if err := l.store.ResolveDeadLetter(ctx, letter.ID, how); err != nil {
			return err
		}
	}
	return nil
}

// waiting returns the letters whose claims a load may bring in, in their order, without
// the claims that have ended: their units have been given back, and sold since. The
// store has forgotten that it had them (see older.go).
func (l *Loader) waiting(ctx context.Context, image *port.LoadImage) (waiting []promised, err error) {
	letters, err := l.store.DeadLetters(ctx, image.Sale)
	for i := range letters {
		p := promised{DeadLetter: letters[i]}
		claims, damaged := claimsOf(&p.DeadLetter)
		if !promises(&p.DeadLetter) || p.Epoch >= image.Epoch || damaged != nil {
			continue
		}
		if ahead := p.Terms - image.Terms.Version; ahead > 0 && ahead <= port.MaxForgotten {
			continue // it came after the image, whose terms would have passed its own (BeginLoad): for the next load
		}
		for _, c := range claims {
			record, err := l.ledger.Find(ctx, c.Order, c.Buyer)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil && !record.Live {
				continue
			}
			p.claims = append(p.claims, c) // of one that the ledger does not know, or cannot read, the letter decides
			p.live = p.live || err == nil
		}
		waiting = append(waiting, p)
	}
	slices.SortStableFunc(waiting, func(a, b promised) int {
		if a.live != b.live {
			return map[bool]int{true: -1, false: 1}[a.live]
		}
		return cmp.Or(cmp.Compare(a.Terms, b.Terms), a.At.Compare(b.At), cmp.Compare(a.Epoch, b.Epoch),
			cmp.Compare(a.FirstSeq, b.FirstSeq))
	})
	return waiting, err
}

// move stores a letter's claims at their new places, or sets them aside there.
func (l *Loader) move(ctx context.Context, entry *port.Entry, reason string) error {
	if len(entry.Claims) == 0 {
		return nil
	}
	_, err := l.store.Insert(ctx, entry.Sale, []port.Entry{*entry})
	if err == nil || ctx.Err() != nil || errors.Is(err, port.ErrStaleEpoch) || errors.Is(err, sluice.ErrStoreBusy) {
		return err
	}
	return l.store.SetAside(ctx, entry.DeadLetter(errors.New(reason)))
}

// room is what an image leaves for claims of dead letters.
type room struct {
	terms  *sluice.Terms
	taken  int64
	known  map[sluice.OrderID]bool
	keys   map[sluice.ClaimID]bool
	buyers map[sluice.BuyerID]sluice.Account // without what ended unpaid
	// counted is how many units each counter has.
	counted map[string]int64
}

func newRoom(image *port.LoadImage) *room {
	r := &room{
		terms: &image.Terms, taken: image.Taken, known: map[sluice.OrderID]bool{}, keys: map[sluice.ClaimID]bool{},
		buyers: map[sluice.BuyerID]sluice.Account{}, counted: map[string]int64{},
	}
	for i := range image.Records {
		record := &image.Records[i]
		r.add(&record.Claim, record.Live)
	}
	return r
}

func (r *room) add(c *sluice.Claim, live bool) {
	r.known[c.Order], r.keys[sluice.ClaimID{Buyer: c.Buyer, Key: c.Key}] = true, true
	h := r.buyers[c.Buyer]
	if h.Orders++; live {
		h.Units += c.Quantity
		for _, counter := range c.Counters.List() {
			r.counted[counter.Name] += c.Quantity
		}
	}
	r.buyers[c.Buyer] = h
}

// take counts a claim that fits; else it says why there is no room for it. It was accepted, so only
// the total can be short of units for it, unless two ledgers that did not know of each
// other accepted claims of its buyer: then the key and the limits decide (I3, I4). The
// unpaid endings of its buyer came later, and a window, pause or cooldown as well.
func (r *room) take(c *sluice.Claim) (refused string) {
	t := r.terms
	switch {
	case r.keys[sluice.ClaimID{Buyer: c.Buyer, Key: c.Key}]:
		return replaced
	case t.Over(r.buyers[c.Buyer], c.Quantity) || c.Counters.Full(r.counted, c.Quantity) != "":
		return sluice.BuyerLimit.String()
	case t.Total != sluice.Unlimited && c.Quantity > t.Total-r.taken:
		return sluice.SoldOut.String()
	}
	r.taken += c.Quantity
	r.add(c, true)
	return ""
}
