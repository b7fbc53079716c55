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
