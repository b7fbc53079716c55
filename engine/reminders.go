package engine

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
)

const (
	// remindEvery is how often one of the servers looks for orders whose deadline is near.
	remindEvery = 5 * time.Second
	// remindAll is how often it looks at all of them.
	remindAll = time.Minute
	// remindTime and remindParts bound one look: the orders of all sales are in its way.
	remindTime  = 10 * time.Second
	remindParts = 10
)

// reminders writes the events order.expiring, for sales that want them. Where no sale
// does, the store is not asked.
//
// Each look goes on where the last one ended: at the orders whose deadline has come
// within the notice since. Others are within it without having come there: an order was
// extended, a notice or a window was changed, another server looked before, or a
// transaction held the order. So every minute a look begins that goes through all of
// them, at a bounded pace.
type reminders struct {
	store interface {
		sluice.ClusterStore
		sluice.SettleStore
	}
	board *admission.Board
	node  string
	log   *slog.Logger

	edges   map[time.Duration]sluice.Due // by how far a notice reaches: where its next look begins
	all     sluice.Due                   // where the look at all goes on
	began   time.Time                    // when that began
	looking bool                         // it has not ended
}

func (r *reminders) run(ctx context.Context) {
	trouble := loop.Trouble{Log: r.log, Begins: "events that orders are about to expire are late"}
	for range loop.Every(ctx, remindEvery) {
		notices := map[sluice.SaleID]sluice.Notice{}
		for id, view := range r.board.Views() {
			if ahead := view.Sale.Rules.ExpiringNoticeS; ahead > 0 {
				notices[id] = sluice.Notice{Ahead: time.Duration(ahead) * time.Second, Grace: view.Sale.PaymentGrace}
			}
		}
		if err := r.once(ctx, notices); ctx.Err() == nil {
			trouble.Note(err)
		}
	}
}

func (r *reminders) once(ctx context.Context, notices map[sluice.SaleID]sluice.Notice) error {
	if len(notices) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, remindTime)
	defer cancel()
	// The lease spares the others the same search, and outlasts this look; a note is
	// written once by itself.
	fence, err := r.store.Lease(ctx, "remind", r.node, 0, remindTime+2*remindEvery)
	if err != nil || fence == 0 {
		r.edges, r.looking, r.began = nil, false, time.Time{} // another server looks
		return err
	}
	reaches := map[time.Duration]map[sluice.SaleID]sluice.Notice{}
	for id, n := range notices {
		reach := n.Ahead + n.Grace
		if reaches[reach] == nil {
			reaches[reach] = map[sluice.SaleID]sluice.Notice{}
		}
		reaches[reach][id] = n
	}
	if r.edges == nil {
		r.edges = map[time.Duration]sluice.Due{}
	}
	maps.DeleteFunc(r.edges, func(reach time.Duration, _ sluice.Due) bool { return reaches[reach] == nil })
	for reach, of := range reaches {
		edge, known := r.edges[reach]
		if !known {
			r.began = time.Time{} // a look at all finds what is within it already
			continue
		}
		found, err := r.look(ctx, of, edge)
		if err != nil {
			return err
		}
		r.edges[reach] = found.Next
	}
	if !r.looking && time.Since(r.began) >= remindAll {
		r.all, r.began, r.looking = sluice.Due{}, time.Now(), true
	}
	if !r.looking {
		return nil
	}
	found, err := r.look(ctx, notices, r.all)
	if err != nil {
		return err
	}
	r.all, r.looking = found.Next, !found.Done
	for reach := range reaches {
		if _, known := r.edges[reach]; !known {
			r.edges[reach] = sluice.Due{KeepUntil: found.Now.Add(reach)}
		}
	}
	return nil
}

// look searches from a place on. What it returns has the time of its first part: what
// comes within a notice after that is beyond the notice now.
func (r *reminders) look(
	ctx context.Context, notices map[sluice.SaleID]sluice.Notice, from sluice.Due,
) (found sluice.Reminded, err error) {
	found.Next = from
	var began time.Time
	for range remindParts {
		if found, err = r.store.Remind(ctx, notices, found.Next); err != nil {
			return found, err
		}
		if began.IsZero() {
			began = found.Now
		}
		if found.Done {
			break
		}
	}
	found.Now = began
	return found, nil
}
