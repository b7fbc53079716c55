package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

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
