package settle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/settle"
)

// replicas is a store of whose servers one answers, which says what comes of changes.
type replicas struct {
	settle.RebuildStore
	server string        // "": none answers
	late   time.Duration // how long a bad one takes
	takes  time.Duration // how long others take
	status sluice.Status // of all orders
	epoch  int64         // of all sales

	underWay sync.Map // orders

	mu      sync.Mutex // guards the four below
	bad     map[sluice.OrderID]error
	made    []sluice.OrderID
	actions []sluice.Action // of those made
	tries   int

	trusted []string // with how long orders do not expire there, and are not changed
}

func (r *replicas) Server(context.Context) (string, error) {
	if r.server == "" {
		return "", sluice.ErrStoreBusy
	}
	return r.server, nil
}

func (r *replicas) Trust(server string, expires, change time.Time) {
	if len(r.made) > 0 {
		r.trusted = append(r.trusted, "after changes")
	}
	r.trusted = append(r.trusted, fmt.Sprint(server, " ", time.Until(expires), time.Until(change)))
}

func (r *replicas) Change(ctx context.Context, c sluice.Change) (sluice.Order, error) {
	if _, begun := r.underWay.LoadOrStore(c.Order, true); begun {
		panic("two changes of " + c.Order + " at a time")
	}
	defer r.underWay.Delete(c.Order)
	time.Sleep(r.takes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if err := r.bad[c.Order]; err != nil {
		r.mu.Unlock()
		defer r.mu.Lock()
		select {
		case <-time.After(r.late):
		case <-ctx.Done():
		}
		return sluice.Order{}, err
	}
	r.made, r.actions = append(r.made, c.Order), append(r.actions, c.Action)
	return sluice.Order{}, nil
}

func (r *replicas) Insert(_ context.Context, _ sluice.SaleID, entries []sluice.Entry) (sluice.Stored, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range entries {
		delete(r.bad, entries[i].Claims[0].Order)
	}
	return sluice.Stored{Inserted: len(entries)}, nil
}

func (r *replicas) Sale(_ context.Context, id sluice.SaleID) (sluice.Sale, error) {
	return sluice.Sale{ID: id, Epoch: r.epoch}, nil
}

func (r *replicas) Order(context.Context, sluice.OrderID) (sluice.Order, error) {
	return sluice.Order{Status: r.status, KeepUntil: time.Now().Add(time.Hour)}, nil
}

// changes is a server that remembers changes, and the store that it made them in.
type changes struct {
	*settle.Rebuilder
	memory *settle.Memory
	store  *replicas
	t      *testing.T
}

// Each in a bubble of time. The first server has answered.
func inChanges(t *testing.T, do func(c *changes)) {
	synctest.Test(t, func(t *testing.T) {
		c := &changes{memory: settle.NewMemory(0), store: &replicas{server: "first"}, t: t}
		c.Rebuilder = settle.NewRebuilder("a", c.store, nil, nil, c.memory, nil, slog.New(slog.DiscardHandler))
		c.repeat(time.Second)
		do(c)
	})
}

func (c *changes) changed(change sluice.Change, to sluice.Status, sale sluice.SaleID) {
	c.memory.Changed(&sluice.Order{ID: change.Order, Sale: sale, Status: to, UpdatedAt: time.Now()}, change)
}

func (c *changes) cancelled(orders ...sluice.OrderID) {
	for _, id := range orders {
		c.changed(sluice.Change{Order: id, Action: sluice.Cancel, By: "merchant"}, sluice.Cancelled, sluice.SaleID(id[:1]))
	}
}

// repeat is what the engine does for so long.
func (c *changes) repeat(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Second) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		c.Watch(ctx, c.store)
		c.Repeat(ctx)
		cancel()
	}
}

func (c *changes) made(want ...sluice.OrderID) {
	c.t.Helper()
	slices.Sort(c.store.made)
	if !slices.Equal(c.store.made, want) {
		c.t.Errorf("made again: %v, want %v", c.store.made, want)
	}
	c.store.made = nil
}

// Changes of the minute before the last answer are made again when another server answers,
// however long that takes, and once: two servers that take turns are no failover.
func TestChangesAreMadeAgainOnceByAnotherServer(t *testing.T) {
	inChanges(t, func(c *changes) {
		c.cancelled("a0")
		c.repeat(2 * time.Minute)
		c.cancelled("a1", "b1", "a1")
		c.store.server = ""
		c.repeat(10 * time.Minute)
		c.made()
		c.store.server = "second"
		c.cancelled("c1")
		c.repeat(3 * time.Second)
		c.made("a1", "b1", "c1")
		for _, again := range []string{"first", "second", "first", "second"} {
			c.store.server = again
			c.repeat(2 * time.Second)
		}
		c.made("a1", "b1", "c1") // when the first was back
		c.repeat(2 * time.Minute)
		c.store.server = "third"
		c.repeat(3 * time.Second)
		c.made() // they were longer ago
	})
}

// A row that is locked, or that the database refuses, holds up its lane's part of its sale once
// each time, and no other order for long.
func TestAnOrderThatCannotBeChangedHoldsUpNoOther(t *testing.T) {
	for what, late := range map[string]time.Duration{"locked": 3 * time.Second, "hung": time.Hour, "refused": 0} {
		t.Run(what, func(t *testing.T) {
			inChanges(t, func(c *changes) {
				c.store.bad, c.store.late = map[sluice.OrderID]error{}, late
				var good, bad []sluice.OrderID
				for sale := 'a'; sale < 'k'; sale++ {
					for n := range 12 {
						order := sluice.OrderID(fmt.Sprintf("%c%02d", sale, n))
						if c.cancelled(order); n%4 == 1 {
							good = append(good, order)
							continue
						}
						bad, c.store.bad[order] = append(bad, order), errors.New(what)
					}
				}
				made := func(want []sluice.OrderID) {
					t.Helper()
					for end := time.Now().Add(5 * time.Minute); len(c.store.made) < len(want) && time.Now().Before(end); {
						c.repeat(time.Second)
					}
					c.made(want...)
				}
				c.store.server = "second"
				c.repeat(time.Second)
				if failed := c.store.tries - len(c.store.made); failed > 4*10 {
					t.Errorf("%d tries that failed in four lanes of ten sales", failed)
				}
				made(good)
				c.store.bad = nil
				made(bad)
			})
		})
	}
}

// What a rush has brought is made again before orders expire, in three seconds and the one that
// repeat sleeps: several at a time, but not those of one order.
func TestManyChangesAreMadeAgainInTime(t *testing.T) {
	inChanges(t, func(c *changes) {
		var want []sluice.OrderID
		for n := range 400 {
			order := sluice.OrderID(fmt.Sprintf("a%03d", n))
			c.changed(sluice.Change{Order: order, Action: sluice.Pay}, sluice.Paid, "a")
			c.changed(sluice.Change{Order: order, Action: sluice.Refund}, sluice.Refunded, "a")
			want = append(want, order, order)
		}
		c.store.server, c.store.takes = "second", 10*time.Millisecond
		began := time.Now()
		if c.repeat(time.Second); time.Since(began) > 4*time.Second {
			t.Errorf("%d changes took %v", len(want), time.Since(began))
		}
		c.made(want...)
	})
}

// A payment in time thanks to an extension comes after it, also if the database hangs meanwhile; and
// both are given up if it always does.
func TestChangesOfAnOrderKeepTheirSequence(t *testing.T) {
	inChanges(t, func(c *changes) {
		c.changed(sluice.Change{Order: "a1", Action: sluice.Extend}, sluice.Pending, "a")
		c.changed(sluice.Change{Order: "a1", Action: sluice.Pay}, sluice.Paid, "a")
		c.store.bad, c.store.late = map[sluice.OrderID]error{"a1": errors.New("hung")}, time.Hour
		c.store.server = "second"
		c.repeat(time.Second)
		bad := c.store.bad
		c.store.bad = nil
		c.repeat(time.Second)
		if want := []sluice.Action{sluice.Extend, sluice.Pay}; !slices.Equal(c.store.actions, want) {
			t.Errorf("made again: %v, want %v", c.store.actions, want)
		}
		c.store.bad, c.store.server = bad, "third"
		c.repeat(15 * time.Minute)
		tries := c.store.tries
		if c.repeat(time.Minute); c.store.tries > tries {
			t.Error("a hung order is tried for ever")
		}
	})
}

// What can never be made again is given up: at once, if its order has gone on.
func TestChangesThatAreGivenUp(t *testing.T) {
	for action, tries := range map[sluice.Action]int{sluice.Pay: 1, sluice.Extend: 1, sluice.Refund: 601} {
		t.Run(string(action), func(t *testing.T) {
			inChanges(t, func(c *changes) {
				c.store.bad = map[sluice.OrderID]error{"a1": &sluice.OrderStateError{Order: "a1"}}
				c.changed(sluice.Change{Order: "a1", Action: action}, sluice.Paid, "a")
				c.store.server = "second"
				c.repeat(15 * time.Minute)
				if c.store.tries < tries || c.store.tries > tries+2 {
					t.Errorf("%d tries, want %d", c.store.tries, tries)
				}
			})
		})
	}
}

// A payment that found its order ended waits for the ending, which another server makes again:
// on the pending order it would be one in time, and the shop has refunded it.
func TestAPaymentThatIsDueToBeRefundedStaysOne(t *testing.T) {
	for what, change := range map[string]sluice.Change{
		"refund due": {Order: "a1", Action: sluice.Pay, PaymentID: "p"},
		"retaken":    {Order: "a1", Action: sluice.Pay, PaymentID: "p", Replacement: "a2"},
	} {
		t.Run(what, func(t *testing.T) {
			inChanges(t, func(c *changes) {
				c.store.status = sluice.Pending
				c.changed(change, map[string]sluice.Status{"refund due": sluice.RefundDue, "retaken": sluice.Paid}[what], "a")
				c.store.server = "second"
				c.repeat(5 * time.Second)
				c.made()
				c.store.status = sluice.Expired
				c.repeat(3 * time.Second)
				c.made("a1")
			})
		})
	}
}

// An order that the store lacks is inserted for its ending first, and then for what keeps its
// units; not for a payment that found it ended, nor in a later epoch.
func TestWhenAnOrderIsInserted(t *testing.T) {
	for name, when := range map[string]struct {
		action sluice.Action
		to     sluice.Status
		epoch  int64
		after  time.Duration
	}{
		"cancelled":       {sluice.Cancel, sluice.Cancelled, 1, 5 * time.Second},
		"refunded":        {sluice.Refund, sluice.Refunded, 1, 5 * time.Second},
		"paid":            {sluice.Pay, sluice.Paid, 1, 10 * time.Second},
		"extended":        {sluice.Extend, sluice.Pending, 1, 10 * time.Second},
		"paid too late":   {sluice.Pay, sluice.RefundDue, 1, time.Hour},
		"of a past epoch": {sluice.Cancel, sluice.Cancelled, 2, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inChanges(t, func(c *changes) {
				entry := placed(1, 1, "ann")
				record := entry.Record(0)
				order := record.AsOrder(sluice.Money{})
				order.Status, order.UpdatedAt = when.to, time.Now()
				c.store.bad = map[sluice.OrderID]error{order.ID: sluice.ErrOrderNotFound}
				c.store.server, c.store.epoch = "second", when.epoch
				c.memory.Changed(&order, sluice.Change{Order: order.ID, Action: when.action})
				c.repeat(min(when.after, time.Minute))
				c.made()
				if c.repeat(3 * time.Second); when.after < time.Hour {
					c.made(order.ID)
				} else {
					c.made()
				}
			})
		})
	}
}

// A shop reports a late payment again: the order in the place of the expired one is paid already.
// That is the same change.
func TestAPaymentOfARetakenOrderIsOneChange(t *testing.T) {
	inChanges(t, func(c *changes) {
		expired := sluice.Order{ID: sluice.SaleID("r").Order(strings.Repeat("0", 32)), Sale: "r"}
		by := sluice.Order{ID: "r1", Sale: "r", Key: expired.RetakeClaim().Key, Status: sluice.Paid, UpdatedAt: time.Now()}
		again := sluice.Change{Order: "r1", Action: sluice.Pay, PaymentID: "p"}
		first := again
		first.Order, first.Replacement = expired.ID, "r1"
		c.memory.Changed(&by, again)
		c.memory.Changed(&by, first)
		c.store.status, c.store.server = sluice.Expired, "second"
		c.repeat(3 * time.Second)
		c.made(expired.ID)
	})
}

// A server is trusted once, before changes are made there; after a failover nothing expires,
// and no client changes an order, before every server has had the time for its changes.
func TestServersAreTrusted(t *testing.T) {
	inChanges(t, func(c *changes) {
		for _, server := range []string{"first", "", "second", "second", "first", "second"} {
			c.cancelled(sluice.OrderID("a" + server))
			c.store.server = server
			c.repeat(10 * time.Second)
			c.store.made = nil
		}
		if want := []string{"first 3s 0s", "second 3s 5s"}; !slices.Equal(c.store.trusted, want) {
			t.Errorf("trusted %v, want %v", c.store.trusted, want)
		}
	})
}
