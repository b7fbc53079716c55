package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// proof gathers what shows, after a rush, that every promise was kept: the
// stored orders, the audit, and what only the buyers' side can see (I4, I7).
type proof struct {
	*run
	crowd *loadgen.Crowd
	out   *loadgen.Outcome
	lives *lives // with --lifecycle

	stored map[sluice.OrderID]kept
	late   error // not everything was stored or settled in time
}

// kept is what the store says of an order.
type kept struct {
	buyer  sluice.BuyerID
	status sluice.Status
}

// storeWithin is how long the pipeline may take for the orders of a rush.
func storeWithin(orders int) time.Duration {
	return 30*time.Second + time.Duration(orders)*time.Millisecond
}

func (p *proof) gather(ctx context.Context) error {
	ended := time.Now()
	if err := p.waitStored(ctx); err != nil {
		return err
	}
	after := loadgen.Round(time.Since(ended).Seconds())
	if p.lives != nil {
		if err := p.waitSettled(ctx); err != nil {
			return err
		}
	}
	if err := p.readOrders(ctx); err != nil {
		return err
	}
	buyers := map[sluice.BuyerID]bool{}
	for _, o := range p.stored {
		buyers[o.buyer] = true
	}
	orders, distinct := int64(len(p.stored)), int64(len(buyers))
	p.out.StoredAfterS, p.out.OrdersStored, p.out.DistinctBuyers = &after, &orders, &distinct
	report, err := p.client.Audit(ctx, p.out.SaleID)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	checks := []sluice.AuditCheck{p.promises(), p.sameAnswer(ctx)}
	if p.lives == nil {
		checks = append(checks, p.undersell())
	} else {
		more, err := p.settled(ctx)
		if err != nil {
			return err
		}
		checks = append(checks, more...)
	}
	for _, check := range checks {
		report.Checks = append(report.Checks, check)
		report.OK = report.OK && check.OK
	}
	slices.SortStableFunc(report.Checks, func(a, b sluice.AuditCheck) int { return strings.Compare(a.ID, b.ID) })
	p.out.Audit = &report
	return ctx.Err()
}

// waitStored waits until nothing is left in the journal. The last order may
// have been stored up to a poll earlier than this notices.
func (p *proof) waitStored(ctx context.Context) error {
	var seen atomic.Pointer[api.AdminSale]
	seen.Store(&api.AdminSale{})
	stop := p.Screen.Watch(func() string {
		sale := seen.Load()
		return fmt.Sprintf("  orders   %s%s of %s stored", p.Screen.Bar(sale.StoredTaken, sale.Taken),
			figures.Thousands(sale.StoredTaken),
			figures.Thousands(sale.Taken))
	})
	defer stop()
	within := storeWithin(len(p.out.Promises))
	return p.await(ctx, within, func(sale *api.AdminSale) (late, err error) {
		seen.Store(sale)
		if sale.Backlog == 0 && (p.lives != nil || sale.StoredTaken >= sale.Taken) { // endings lower the store's count first
			return nil, nil
		}
		return fmt.Errorf("%s of %s units were stored after %s, and %s wait", figures.Thousands(sale.StoredTaken),
			figures.Thousands(sale.Taken), within, figures.Plural(sale.Backlog, "journal entry", "journal entries")), nil
	})
}

// await looks at the sale until it is not late any more. After the patience it
// keeps what was late, and goes on.
func (p *proof) await(ctx context.Context, patience time.Duration,
	look func(*api.AdminSale) (late, err error),
) error {
	for deadline := time.Now().Add(patience); ; {
		sale, err := p.client.AdminSale(ctx, p.out.SaleID)
		if err != nil {
			return err
		}
		late, err := look(&sale)
		if err != nil || late == nil {
			return err
		}
		if time.Now().After(deadline) {
			p.late = errors.Join(p.late, late)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *proof) readOrders(ctx context.Context) error {
	p.stored = map[sluice.OrderID]kept{}
	for o, err := range p.client.AllAdminOrders(ctx, sluice.OrderFilter{Sale: p.out.SaleID}) {
		if err != nil {
			return err
		}
		p.stored[o.OrderID] = kept{o.BuyerID, o.Status}
	}
	return nil
}

// promises holds every 202 against the stored orders (I5, from the buyers' side).
func (p *proof) promises() sluice.AuditCheck {
	var missing []string
	for _, promise := range p.out.Promises {
		if p.stored[promise.Order].buyer != loadgen.BuyerName(promise.Buyer) {
			missing = append(missing, string(promise.Order))
		}
	}
	return judged("I5", "Every promise kept", len(missing) == 0,
		fmt.Sprintf("%s of %s promised orders are stored", figures.Thousands(len(p.out.Promises)-len(missing)),
			figures.Thousands(len(p.out.Promises))), missing)
}

// repeats is how many accepted claims are sent again.
const repeats = 200

// sameAnswer repeats accepted claims with their keys, now that the sale is
// sold out or the buyer has all that the limit allows (I4).
func (p *proof) sameAnswer(ctx context.Context) sluice.AuditCheck {
	sample := p.out.Promises
	if len(sample) > repeats {
		spread := make([]loadgen.Promise, repeats)
		for i := range spread {
			spread[i] = sample[i*len(sample)/repeats]
		}
		sample = spread
	}
	var broken []string
	for promise, why := range p.crowd.Repeat(ctx, sample) {
		broken = append(broken, string(promise.Order)+" "+why)
	}
	return judged("I4", "Same answer (repeated)", len(broken) == 0,
		fmt.Sprintf("%s of %s repeated claims got their order again", figures.Thousands(len(sample)-len(broken)),
			figures.Thousands(len(sample))), broken)
}

// undersell: nothing was given back, so "sold out" must mean that all units
// went (I7).
func (p *proof) undersell() sluice.AuditCheck {
	accepted, refused := p.out.Decisions[sluice.Accepted], p.out.Decisions[sluice.SoldOut]
	return judged("I7", "No undersell", refused == 0 || accepted == p.Stock,
		fmt.Sprintf("%s heard sold out, and %s of %s units went", figures.Thousands(refused), figures.Thousands(accepted),
			figures.Thousands(p.Stock)), nil)
}

// judged makes a check; the first offenders are named.
func judged(id, name string, ok bool, detail string, offenders []string) sluice.AuditCheck {
	if len(offenders) > 0 {
		detail += ": " + strings.Join(offenders[:min(len(offenders), 3)], ", ")
	}
	return sluice.AuditCheck{ID: id, Name: name, OK: ok, Detail: detail}
}

// waitSettled waits until no order can end by itself any more, and the ledger
// has got every unit back that the store has ended.
func (p *proof) waitSettled(ctx context.Context) error {
	p.late = errors.Join(p.late, p.lives.trouble())
	return p.await(ctx, p.patience(), func(sale *api.AdminSale) (late, err error) {
		pending, err := p.client.AdminOrders(ctx, sluice.OrderFilter{Sale: p.out.SaleID, Status: sluice.Pending, Limit: 1})
		if err != nil || len(pending.Orders) == 0 && sale.Backlog == 0 && sale.Taken == sale.StoredTaken {
			return nil, err
		}
		return fmt.Errorf("not settled after %s: %s of the ledger, %s of the store, %s still pending", p.patience(),
			figures.Plural(sale.Taken, "unit", "units"), figures.Thousands(sale.StoredTaken),
			map[bool]string{true: "orders", false: "no order"}[len(pending.Orders) > 0]), nil
	})
}

// trouble is what kept payments and cancellations from being answered.
func (l *lives) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) == 0 {
		return nil
	}
	return fmt.Errorf("%s without an answer, the first: %w",
		figures.Plural(len(l.failed), "payment or cancellation stayed", "payments and cancellations stayed"), l.failed[0])
}

// settled adds the figures of the lives, and the checks that can be made from
// outside: with the crowd's promises, the answers to buyers and merchant, and
// the sale and the orders as they are now.
func (p *proof) settled(ctx context.Context) ([]sluice.AuditCheck, error) {
	sale, err := p.client.AdminSale(ctx, p.out.SaleID)
	if err != nil {
		return nil, err
	}
	if sale.Available == nil {
		return nil, errors.New("the server does not know how many units are available")
	}
	life := p.figures(*sale.Available)
	p.out.Lifecycle = &life
	twice, read, err := p.histories(ctx)
	if err != nil {
		return nil, err
	}
	return []sluice.AuditCheck{p.conserved(&life, sale.Taken), p.oneEnd(twice, read), p.soldAgain(&life)}, nil
}

func (p *proof) figures(available int64) loadgen.Lifecycle {
	life := loadgen.Lifecycle{
		PaymentWindowS: p.Window.Seconds(), PaymentGraceS: lifeGrace.Seconds(),
		Accepted: int64(len(p.out.Promises)), Available: available, CameBack: p.lives.back,
		SettledAfterS: loadgen.Round(time.Since(p.lives.rushed).Seconds()),
	}
	for _, o := range p.stored {
		switch o.status {
		case sluice.Paid:
			life.Paid++
		case sluice.Cancelled:
			life.Cancelled++
		case sluice.Expired:
			life.Expired++
		case sluice.Refunded:
			life.Refunded++
		}
		if !o.status.Live() {
			life.Returned++
		}
	}
	life.SoldAgain = max(life.Accepted-p.Stock, 0)
	return life
}

// conserved: in the end every unit is available or paid (I2).
func (p *proof) conserved(life *loadgen.Lifecycle, taken int64) sluice.AuditCheck {
	return judged("I2", "Conservation (from outside)", p.Stock == life.Available+life.Paid && taken == life.Paid,
		fmt.Sprintf("total %s = %s available + %s paid; the ledger holds %s", figures.Thousands(p.Stock),
			figures.Thousands(life.Available),
			figures.Thousands(life.Paid), figures.Thousands(taken)), nil)
}

// oneEnd: the orders are as buyers and merchant were answered, and no
// history lets units return twice (I6).
func (p *proof) oneEnd(twice []string, read int) sluice.AuditCheck {
	offenders := twice
	for order, status := range p.lives.seen {
		if have := p.stored[order].status; have != status {
			offenders = append(offenders, fmt.Sprintf("%s was said to be %s and is %s", order, status, have))
		}
	}
	slices.Sort(offenders)
	return judged("I6", "One end (from outside)", len(offenders) == 0,
		fmt.Sprintf("%s of payments and cancellations hold, %s of ended orders show one return each",
			figures.Plural(len(p.lives.seen), "answer", "answers"), figures.Plural(read, "history", "histories")), offenders)
}

// soldAgain: every unit that returned was sold again or can be bought, and no
// buyer went away with nothing while there was one (I7).
func (p *proof) soldAgain(life *loadgen.Lifecycle) sluice.AuditCheck {
	neverSold := max(p.Stock-life.Accepted, 0)
	left := int64(life.CameBack.Left)
	refused := p.out.Decisions[sluice.SoldOut]
	ok := life.Returned == life.SoldAgain+life.Available-neverSold && (left == 0 || life.Available == 0) &&
		(refused == 0 || neverSold == 0)
	return judged("I7", "No undersell", ok,
		fmt.Sprintf("%s returned, %s sold again, %s available; %s went away with nothing",
			figures.Plural(life.Returned, "unit", "units"), figures.Thousands(life.SoldAgain), figures.Thousands(life.Available),
			figures.Plural(left, "buyer", "buyers")), nil)
}

// maxHistories is how many histories of ended orders are read.
const maxHistories = 2000

// histories reads those of ended orders, and names the orders whose units did
// not return exactly once.
func (p *proof) histories(ctx context.Context) (offenders []string, read int, err error) {
	for id, o := range p.stored {
		if o.status.Live() {
			continue
		}
		if read == maxHistories {
			break
		}
		history, err := p.client.OrderHistory(ctx, id)
		if err != nil {
			return nil, read, err
		}
		read++
		if n := returns(history.Changes); n != 1 {
			offenders = append(offenders, fmt.Sprintf("%s returned its units %d times", id, n))
		}
	}
	return offenders, read, nil
}

// returns counts the changes that gave units back.
func returns(changes []api.OrderChange) int {
	n := 0
	for _, c := range changes {
		if c.From.Live() && !c.To.Live() {
			n++
		}
	}
	return n
}
