package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// races is how often two changes are raced: enough to find what is wrong. Soak
// races them ten times as often.
func races() int {
	if testing.Short() {
		return 100
	}
	return 1000
}

// Payment and expiry race around the deadline: exactly one wins, and the units
// return if and only if it is not the payment.
func testPaymentAgainstExpiry(t *testing.T, db Database) { racePaymentAndExpiry(t, db, races()) }

func racePaymentAndExpiry(t *testing.T, db Database, n int) {
	const perRound = 50
	handles := [2]port.Store{db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", sluice.Unlimited)
	told := map[sluice.OrderID]sluice.Status{}
	var mu sync.Mutex
	lead := 30 * time.Millisecond // from storing to the deadline
	var byJob atomic.Int64
	for range n / perRound {
		entry := src.store(t, handles[0], perRound)
		newest := read1(t, handles[0], entry.Claims[0].Order)
		// All orders of before have ended, so they may be aged again.
		db.Age(t, "phones", newest.KeepUntil.Sub(newest.StoredAt)-lead)

		var paying, expiring sync.WaitGroup
		var paidUp atomic.Bool
		inTime := 0
		for worker := range 4 {
			paying.Go(func() {
				for i := worker; i < perRound; i += 4 {
					id := entry.Claims[i].Order
					got, err := handles[0].Change(t.Context(), want(id, sluice.Pay))
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					told[id] = got.Status
					if got.Status == sluice.Paid {
						inTime++
					}
					mu.Unlock()
				}
			})
		}
		for range 2 {
			expiring.Go(func() {
				for !paidUp.Load() {
					expired, err := expireDue(t.Context(), handles[1], 5)
					if err != nil {
						t.Error(err)
						return
					}
					byJob.Add(int64(expired))
					if expired == 0 {
						time.Sleep(time.Millisecond) // a server asks less often
					}
				}
			})
		}
		paying.Wait()
		paidUp.Store(true)
		expiring.Wait()
		// The deadline should come in the middle of the payments.
		switch {
		case inTime > perRound*3/4:
			lead = lead * 3 / 4
		case inTime < perRound/4:
			lead = lead*4/3 + time.Millisecond
		}
	}
	late := oneOutcomeEach(t, handles[0], told)
	if n > 500 && (late == 0 || late == len(told) || byJob.Load() == 0) {
		t.Errorf("%d of %d payments came too late, %d orders were expired by the job: that was no race", late, len(told),
			byJob.Load())
	}
	t.Logf("%d races: %d payments came too late, %d orders were expired by the job", len(told), late, byJob.Load())
}

// oneOutcomeEach checks orders on which a payment was tried: each is paid, and
// in time, or its money is due and its units returned once. It returns how many
// came too late.
func oneOutcomeEach(t *testing.T, s port.Store, told map[sluice.OrderID]sluice.Status) (late int) {
	t.Helper()
	released := map[sluice.OrderID]int{}
	for _, r := range given(t, s) {
		released[r.Order]++
	}
	c := mustBeSound(t, s, "phones")
	if len(c.Orders) != len(told) {
		t.Errorf("%d orders, %d were paid for", len(c.Orders), len(told))
	}
	for _, o := range c.Orders {
		entries := history(t, s, o.ID)
		ok := o.Status == told[o.ID] && o.PaymentID == paymentOf(o.ID)
		switch o.Status {
		case sluice.Paid:
			ok = ok && released[o.ID] == 0 && len(entries) == 2 && entries[1].To == sluice.Paid
		case sluice.RefundDue:
			late++
			ok = ok && released[o.ID] == 1 && len(entries) == 3 && entries[1].From == sluice.Pending &&
				entries[2].To == sluice.RefundDue &&
				entries[1].To == entries[2].From && !entries[2].At.Before(entries[1].At)
		default:
			ok = false
		}
		if !ok {
			t.Errorf("order %s is %s, told %s, released %d times: %+v", o.ID, o.Status, told[o.ID], released[o.ID], entries)
		}
	}
	return late
}

// raceTwo lets two changes of each of n orders run at the same time, on two
// handles, and hands the outcomes to judge.
func raceTwo(t *testing.T, handles [2]port.Store, n int, both func(sluice.OrderID) [2]sluice.Change,
	judge func(sluice.OrderID, [2]sluice.Order, [2]error),
) {
	t.Helper()
	orders := look(t, handles[0], "phones").Orders
	for _, o := range orders[len(orders)-n:] {
		changes := both(o.ID)
		var got [2]sluice.Order
		var errs [2]error
		var running sync.WaitGroup
		start := make(chan bool)
		for i := range 2 {
			running.Go(func() {
				<-start
				got[i], errs[i] = handles[i].Change(t.Context(), changes[i])
			})
		}
		close(start)
		running.Wait()
		judge(o.ID, got, errs)
	}
}

func testPaymentAgainstCancel(t *testing.T, db Database) { racePaymentAndCancel(t, db, races()) }

func racePaymentAndCancel(t *testing.T, db Database, n int) {
	handles := [2]port.Store{db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", sluice.Unlimited)
	src.store(t, handles[0], n)
	told := map[sluice.OrderID]sluice.Status{}
	flip := 0
	raceTwo(t, handles, n, func(id sluice.OrderID) [2]sluice.Change {
		return [2]sluice.Change{want(id, sluice.Pay), want(id, sluice.Cancel)}
	}, func(id sluice.OrderID, got [2]sluice.Order, errs [2]error) {
		told[id] = got[0].Status
		refused := (*sluice.OrderStateError)(nil)
		cancelled := errs[1] == nil && got[1].Status == sluice.Cancelled
		paidFirst := errors.As(errs[1], &refused) && refused.Status == sluice.Paid
		if errs[0] != nil || paidFirst != (got[0].Status == sluice.Paid) || cancelled == paidFirst {
			t.Errorf("%s: pay: %s, %v; cancel: %s, %v", id, got[0].Status, errs[0], got[1].Status, errs[1])
		}
		if paidFirst {
			flip++
		}
	})
	late := oneOutcomeEach(t, handles[0], told)
	t.Logf("%d races: payment was first in %d, cancelling in %d", n, flip, late)
}

// Two of the same kind: the same payment twice, two payments, two refunds.
func testSameChangeTwice(t *testing.T, db Database) {
	handles := [2]port.Store{db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", sluice.Unlimited)
	n := races() / 10
	src.store(t, handles[0], n)
	raceTwo(t, handles, n, func(id sluice.OrderID) [2]sluice.Change {
		a, b := want(id, sluice.Pay), want(id, sluice.Pay)
		b.PaymentID += "-2"
		return [2]sluice.Change{a, b}
	}, func(id sluice.OrderID, got [2]sluice.Order, errs [2]error) {
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		conflict := (*sluice.PaymentConflictError)(nil)
		if errs[winner] != nil || !errors.As(errs[1-winner], &conflict) || conflict.Have != got[winner].PaymentID ||
			len(history(t, handles[0], id)) != 3 {
			t.Errorf("%s: %v and %v", id, errs[0], errs[1])
		}
	})
	raceTwo(t, handles, n, func(id sluice.OrderID) [2]sluice.Change {
		return [2]sluice.Change{want(id, sluice.Refund), want(id, sluice.Refund)}
	}, func(id sluice.OrderID, got [2]sluice.Order, errs [2]error) {
		if errs[0] != nil || errs[1] != nil || got[0] != got[1] || got[0].Status != sluice.Refunded ||
			len(history(t, handles[0], id)) != 4 {
			t.Errorf("%s: %+v, %v and %+v, %v", id, got[0], errs[0], got[1], errs[1])
		}
	})
	if c := mustBeSound(t, handles[0], "phones"); c.Sale.Taken != 0 {
		t.Errorf("taken %d", c.Sale.Taken)
	}
	sameReleases(t, look(t, handles[0], "phones").Orders, given(t, handles[0]))
}

// One payment for two orders at the same moment, on two servers: one order has it.
func testPaymentOfTwo(t *testing.T, db Database) {
	handles := [2]port.Store{db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", sluice.Unlimited)
	n := races() / 10
	src.store(t, handles[0], n)
	twins := src.store(t, handles[0], n).Claims // each is paid with what another order is paid with
	orders := look(t, handles[0], "phones").Orders
	for i, twin := range twins {
		pays := [2]sluice.Change{want(orders[i].ID, sluice.Pay), want(twin.Order, sluice.Pay)}
		pays[1].PaymentID = pays[0].PaymentID
		var errs [2]error
		var running sync.WaitGroup
		start := make(chan bool)
		for h := range 2 {
			running.Go(func() {
				<-start
				_, errs[h] = handles[h].Change(t.Context(), pays[h])
			})
		}
		close(start)
		running.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		conflict := (*sluice.PaymentConflictError)(nil)
		if errs[winner] != nil || !errors.As(errs[1-winner], &conflict) || conflict.Other != pays[winner].Order {
			t.Errorf("%v and %v", errs[0], errs[1])
		}
	}
	mustBeSound(t, handles[0], "phones")
}

// Loads and endings: an image that still counts an order as live goes with a
// release of that epoch or a later one; one that does not, with an older one.
// So a ledger that is loaded from the image, and discards releases of older
// epochs, gets each unit back once (I2, I6).
func testLoadsAgainstEndings(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	s := handles[0]
	src := selling(t, s, "phones", sluice.Unlimited)
	const n = 240
	entry := src.store(t, s, n)
	var running sync.WaitGroup
	ended := make(chan struct{}, n)
	for worker := range 3 {
		running.Go(func() {
			for i := worker; i < n; i += 3 {
				if _, err := handles[worker].Change(t.Context(), want(entry.Claims[i].Order, sluice.Cancel)); err != nil {
					t.Error(err)
				}
				ended <- struct{}{}
			}
		})
	}
	var images []port.LoadImage
	for told := 0; ; {
		epoch := int64(len(images) + 1)
		must.Succeed(t, s.FenceSale(t.Context(), "phones", epoch, "test"))
		image := must.Get(s.BeginLoad(t.Context(), "phones", 0))(t)
		images = append(images, image)
		must.Succeed(t, s.ConfirmLoad(t.Context(), "phones", image.Epoch))
		if told == n {
			break
		}
		// Loads without a pause could keep who ends an order from ever getting
		// its turn: SQLite has no queue.
		for range min(4, n-told) {
			<-ended
			told++
		}
	}
	running.Wait()
	stamped := map[sluice.OrderID]int64{}
	for _, r := range given(t, s) {
		stamped[r.Order] = r.Epoch
	}
	if len(stamped) != n {
		t.Errorf("%d releases, want %d", len(stamped), n)
	}
	for _, image := range images {
		units := int64(0)
		for _, r := range image.Records {
			if r.Live {
				units += r.Quantity
			}
			if r.Live != (stamped[r.Order] >= image.Epoch) {
				t.Errorf("epoch %d has order %s live: %v, and its release is of epoch %d", image.Epoch, r.Order, r.Live,
					stamped[r.Order])
			}
		}
		if units != image.Taken || len(image.Records) != n {
			t.Errorf("epoch %d: taken %d, live records hold %d of %d records", image.Epoch, image.Taken, units,
				len(image.Records))
		}
	}
	t.Logf("%d loads", len(images))
}

// Everything at once, on few orders: whatever the order of events, taken is the
// sum of the live orders at every moment, and each ended order is released once.
func testEverythingAtOnce(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", 1000)
	old, fresh := src.entryOf(slices.Repeat([]int64{1, 2, 3}, 20)...), src.entryOf(slices.Repeat([]int64{1, 2, 3}, 20)...)
	insert(t, handles[0], port.Stored{Inserted: 60}, old)
	db.Age(t, "phones", time.Hour)
	insert(t, handles[0], port.Stored{Inserted: 60}, fresh)
	claims := append(old.Claims, fresh.Claims...)

	var mu sync.Mutex
	released := map[sluice.OrderID]int{}
	give := func(_ sluice.SaleID, releases []port.Release) error {
		mu.Lock()
		defer mu.Unlock()
		if rand.IntN(3) == 0 {
			return errLedgerIsDown
		}
		for _, r := range releases {
			released[r.Order]++
		}
		return nil
	}
	var running sync.WaitGroup
	var stop atomic.Bool
	for worker := range 4 {
		random := rand.New(rand.NewPCG(3, uint64(worker)))
		s := handles[worker%3]
		running.Go(func() {
			for range races() / 10 {
				c := want(claims[random.IntN(len(claims))].Order, actionsOfOrders[random.IntN(5)])
				_, err := s.Change(t.Context(), c)
				if refused := (*sluice.OrderStateError)(nil); err != nil && !errors.As(err, &refused) {
					t.Error(err)
				}
				switch random.IntN(8) {
				case 0:
					if _, err := expireDue(t.Context(), s, 1+random.IntN(3)); err != nil {
						t.Error(err)
					}
				case 1:
					if _, err := s.GiveReleases(t.Context(), 1+random.IntN(5), give); err != nil && !errors.Is(err, errLedgerIsDown) {
						t.Error(err)
					}
				case 2:
					if _, err := s.Insert(t.Context(), "phones", []port.Entry{old, fresh}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		for !stop.Load() {
			c, err := lookInto(t.Context(), handles[2], "phones")
			if err == nil {
				err = c.sound()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	running.Wait()
	stop.Store(true)
	looking.Wait()
	for _, r := range given(t, handles[0]) {
		released[r.Order]++
	}
	for _, o := range mustBeSound(t, handles[0], "phones").Orders {
		want := 1
		if o.Status.Live() {
			want = 0
		}
		if released[o.ID] != want {
			t.Errorf("order %s is %s, and was released %d times", o.ID, o.Status, released[o.ID])
		}
	}
}
