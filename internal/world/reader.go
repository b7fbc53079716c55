package world

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// read is a system of the shop that reads the feed: it saves how far it has come now and then, and
// goes on from there when it has crashed.
func (w *world) read(ctx context.Context, over <-chan struct{}) {
	random := rand.New(rand.NewPCG(w.plan.Seed, 2))
	after, saved := "", ""
	for {
		select {
		case <-over:
			return
		case <-time.After(2 * time.Second):
		}
		s := w.live(random.IntN(w.plan.Servers))
		if s == nil {
			continue
		}
		page, err := s.admin.Events(ctx, after, 50)
		switch {
		case client.CodeOf(err) == api.CodeStaleCursor:
			w.claims.startOver()
			after, saved = "", ""
		case err == nil:
			w.hears(page.Events)
			after = page.Next
		}
		switch random.IntN(6) {
		case 0, 1:
			saved = after
		case 2:
			after = saved
		}
	}
}

// startOver notes that the feed does not know how far its reader has come, as after a restore of the store.
func (c *claims) startOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.restored {
		c.wrong = append(c.wrong, "the feed does not know an event that it gave, and nobody has restored the store")
	}
	clear(c.events)
}

// hears notes what the feed's reader was given: the same again after a crash. What servers did by themselves is told.
func (w *world) hears(events []api.Event) {
	for i := range events {
		if e := &events[i]; w.claims.event(e) && e.Type == sluice.EventOrderExpired {
			w.tell("the feed: %s is expired", e.Data.Order.OrderID)
		}
	}
}

// event notes one, and judges whether it is what the reader was given under that number. It reports whether it is new.
func (c *claims) event(e *api.Event) bool {
	said := string(e.Type)
	if o := e.Data.Order; o != nil {
		said += " " + string(o.OrderID) + " " + string(o.Status)
	}
	c.mu.Lock()
	before, known := c.events[e.Seq]
	c.events[e.Seq] = said
	if o := e.Data.Order; o != nil {
		c.stored[o.OrderID] = true
	}
	restored := c.restored
	c.mu.Unlock()
	if known && before != said && !restored {
		c.complain("event %d was %q, and is %q", e.Seq, before, said)
	}
	return !known
}
