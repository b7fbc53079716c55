package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
)

// remindEvery is how often one of the servers looks for orders whose deadline is near.
const remindEvery = 5 * time.Second

// reminders writes the events order.expiring, for sales that want them. Where no sale
// does, the store is not asked.
type reminders struct {
	store interface {
		sluice.ClusterStore
		sluice.SettleStore
	}
	board *admission.Board
	node  string
	log   *slog.Logger
}

func (r *reminders) run(ctx context.Context) {
	trouble := loop.Trouble{Log: r.log, Begins: "events that orders are about to expire are late"}
	for range loop.Every(ctx, remindEvery) {
		if err := r.once(ctx); ctx.Err() == nil {
			trouble.Note(err)
		}
	}
}

func (r *reminders) once(ctx context.Context) error {
	notices := map[sluice.SaleID]sluice.Notice{}
	for id, view := range r.board.Views() {
		if ahead := view.Sale.Rules.ExpiringNoticeS; ahead > 0 {
			notices[id] = sluice.Notice{Ahead: time.Duration(ahead) * time.Second, Grace: view.Sale.PaymentGrace}
		}
	}
	if len(notices) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// The lease spares the others the same search; a note is written once by itself.
	fence, err := r.store.Lease(ctx, "remind", r.node, 0, 2*remindEvery)
	if err != nil || fence == 0 {
		return err
	}
	_, err = r.store.Remind(ctx, notices)
	return err
}
