package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/metrics"
	"github.com/sluicehq/sluice/internal/notify"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// forgetter makes the ledger forget archived sales. The server that archives a
// sale does so at once; one that died in between leaves the sale's keys behind.
// So every server drops a sale that it sees leave the board, and goes through all
// sales slowly, after its start and once a day: a ledger that became an older one
// has archived sales again, and the names of their buyers. Dropping is idempotent.
type forgetter struct {
	store  port.SaleStore
	ledger forgetfulLedger
	log    *slog.Logger

	bell loop.Bell
	mu   sync.Mutex
	left map[sluice.SaleID]int64 // sales that have left the board, with their epochs
}

const (
	// forgetPage is how many sales are read at a time after the start, and
	// forgetShare the part of the time that goes into it: one in so many.
	forgetPage  = 200
	forgetShare = 100
	// forgetRetry is the rest after a failure.
	forgetRetry = 5 * time.Second
	forgetAgain = 24 * time.Hour
)

// forgetfulLedger is what a forgetter needs of port.Ledger.
type forgetfulLedger interface {
	Drop(ctx context.Context, sale sluice.SaleID, epoch int64) error
	Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error)
}

func newForgetter(store port.SaleStore, ledger forgetfulLedger, log *slog.Logger) *forgetter {
	return &forgetter{
		store: store, ledger: ledger, log: log, bell: loop.NewBell(),
		left: map[sluice.SaleID]int64{},
	}
}

// saw notes the sales that are archived.
func (f *forgetter) saw(view *admission.View) {
	f.mu.Lock()
	f.left[view.Sale.ID] = heldEpoch(&view.Sale)
	f.mu.Unlock()
	f.bell.Ring()
}

func (f *forgetter) run(ctx context.Context) {
	after, swept := sluice.SaleID(""), false
	trouble := loop.Trouble{Log: f.log, Begins: "an archived sale cannot be dropped from the ledger yet"}
	sweeps := time.NewTicker(forgetAgain)
	defer sweeps.Stop()
	for {
		begun := time.Now()
		err := f.dropLeft(ctx)
		if err == nil && !swept {
			after, swept, err = f.page(ctx, after)
		}
		if ctx.Err() != nil {
			return
		}
		trouble.Note(err)
		var again <-chan time.Time
		switch {
		case err != nil:
			again = time.After(forgetRetry)
		case !swept:
			again = time.After(forgetShare * time.Since(begun))
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-f.bell:
		case <-sweeps.C:
			after, swept = "", false
		}
	}
}

// dropLeft drops the sales that have left the board.
func (f *forgetter) dropLeft(ctx context.Context) error {
	for {
		var id sluice.SaleID
		var epoch int64
		f.mu.Lock()
		for id, epoch = range f.left {
			break
		}
		f.mu.Unlock()
		if id == "" {
			return nil
		}
		if err := f.drop(ctx, id, epoch); err != nil {
			return err
		}
		f.mu.Lock()
		delete(f.left, id)
		f.mu.Unlock()
	}
}

// page drops the archived sales of the next page of all sales.
func (f *forgetter) page(ctx context.Context, after sluice.SaleID) (last sluice.SaleID, done bool, err error) {
	asking, cancel := context.WithTimeout(ctx, stepTimeout)
	sales, err := f.store.SelectSales(asking, port.SaleFilter{After: after, Limit: forgetPage})
	cancel()
	if err != nil {
		return after, false, err
	}
	for i := range sales {
		if sale := &sales[i]; !sale.ArchivedAt.IsZero() {
			if err := f.drop(ctx, sale.ID, heldEpoch(sale)); err != nil {
				return after, false, err
			}
		}
		after = sales[i].ID
	}
	return after, len(sales) < forgetPage, nil
}

// heldEpoch is the one under which a ledger may hold an archived sale: not the next one,
// which the sale gets when orders of it are deleted.
func heldEpoch(sale *sluice.Sale) int64 {
	if sale.Remains != nil {
		return sale.Epoch - 1
	}
	return sale.Epoch
}

func (f *forgetter) drop(ctx context.Context, id sluice.SaleID, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	err := f.ledger.Drop(ctx, id, epoch)
	if errors.Is(err, port.ErrStaleEpoch) { // or the ledger is an older copy of itself
		if readings, failed := f.ledger.Read(ctx, []sluice.SaleID{id}); failed == nil && readings[0].Epoch < epoch {
			err = f.ledger.Drop(ctx, id, readings[0].Epoch)
		}
	}
	if errors.Is(err, port.ErrStaleEpoch) { // it would fail for ever, and keep all others waiting
		f.log.Warn("the ledger has an archived sale under another epoch, and keeps it", "sale", id, "epoch", epoch)
		return nil
	}
	return err
}

// tidyEvery is how often one of the servers deletes what has done its work in
// the store, and tidyTimeout bounds it; the next one goes on.
const (
	tidyEvery   = time.Hour
	tidyTimeout = 10 * time.Minute
)

// tidyStore is what tidy needs of port.Store.
type tidyStore interface {
	port.ClusterStore
	port.ErasureStore
	Clock(ctx context.Context) (time.Time, error)
}

// retention is how long records and orders are kept; 0: for ever. Nothing is deleted by
// it while the clocks disagree.
type retention struct {
	records, orders time.Duration
	ledgerTime      func() time.Time
}

func tidy(ctx context.Context, store tidyStore, node string, keep retention, log *slog.Logger) {
	for range loop.Every(ctx, tidyEvery) {
		err := tidyOnce(ctx, store, node, keep, log)
		if err != nil && ctx.Err() == nil && !errors.Is(err, sluice.ErrStoreBusy) {
			log.Warn("cannot delete what is no longer needed from the store; trying again in about an hour", "error", err)
		}
	}
}

func tidyOnce(ctx context.Context, store tidyStore, node string, keep retention, log *slog.Logger) error {
	// The lease is kept until the next time, so that the others need not.
	fence, err := store.Lease(ctx, "tidy", node, 0, tidyEvery-time.Minute)
	if err != nil || fence == 0 {
		return err
	}
	within := func(do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
		defer cancel()
		err = errors.Join(err, do(ctx))
	}
	within(store.Tidy)
	if keep.records > 0 {
		within(func(ctx context.Context) error {
			if err := settle.CheckClocks(ctx, store, keep.ledgerTime); err != nil {
				return err
			}
			erased, err := store.EraseOlder(ctx, keep.records)
			if erased.Orders > 0 || erased.DeadLetters > 0 || erased.Actions > 0 {
				log.Info("record_retention: erased the buyers of archived sales, and deleted old actions of admins",
					"orders", erased.Orders, "dead_letters", erased.DeadLetters, "actions", erased.Actions)
			}
			return err
		})
	}
	if keep.orders > 0 {
		within(func(ctx context.Context) error {
			if err := settle.CheckClocks(ctx, store, keep.ledgerTime); err != nil {
				return err
			}
			purged, err := store.PurgeOlder(ctx, keep.orders)
			if purged.Orders > 0 || purged.Events > 0 {
				log.Info("order_retention: deleted the orders of archived sales, and old events",
					"orders", purged.Orders, "events", purged.Events)
			}
			if len(purged.Waits) > 0 || len(purged.Behind) > 0 {
				log.Warn("order_retention: some orders or events cannot be deleted yet", "sales", first(purged.Waits),
					"sales_waiting", len(purged.Waits), "webhooks_behind", first(purged.Behind))
			}
			return err
		})
	}
	return err
}

// first is what a log line shows of a list.
func first[T any](list []T) []T { return list[:min(len(list), 5)] }

// eventJobs tell the merchant what happens to orders and sales.
type eventJobs struct {
	numberer *notify.Numberer
	sender   *notify.Sender
	client   *notify.Client
}

func (j *eventJobs) compose(e *Engine, counts *metrics.Metrics) {
	counters := counts.Events()
	j.client = notify.NewClient("1")
	j.sender = notify.NewSender(e.store, notify.SenderOptions{
		Node: e.node, Post: j.client.Post, Encode: encodeEvent, Observer: counters, Log: e.cfg.Log,
	})
	j.numberer = notify.NewNumberer(e.store, notify.NumbererOptions{
		Node: e.node, Numbered: func(n int) { counters.Numbered(n); j.sender.Wake() }, Log: e.cfg.Log,
	})
}

// try posts a body to a webhook once.
func (j *eventJobs) try(ctx context.Context, w *sluice.Webhook, id string, body []byte) (int, error) {
	answer, err := j.sender.Try(ctx, w, id, body)
	return answer.Status, err
}

// encodeEvent is the body of a webhook: the event as the feed has it.
func encodeEvent(e *sluice.Event) ([]byte, error) { return json.Marshal(httpapi.EventMessage(e)) }

func (j *eventJobs) start(ctx context.Context, e *Engine) {
	e.loops.Go(func() { j.numberer.Run(ctx) })
	e.loops.Go(func() {
		j.sender.Run(ctx)
		j.client.Close()
	})
}

// sealWebhooks has the store keep the secrets of webhooks encrypted: with the key
// that was given, or, where the store is this server's own file, with one of the
// data folder. Other stores have many servers, of which each would make its own:
// without a key they keep the secrets in clear, which is warned of.
func (e *Engine) sealWebhooks(ctx context.Context) (err error) {
	key := e.cfg.WebhookKey
	if e.storeDriver.Own {
		if key, err = e.folder.secret(key, "webhook.key"); err != nil {
			return err
		}
	}
	if key == "" && e.cfg.RecordRetention > 0 {
		return errors.New("record_retention needs a webhook_key (SLUICE_WEBHOOK_KEY), the same on every server: " +
			"pseudonyms of buyers are made with it")
	}
	clear, err := e.store.SealSecrets(ctx, key)
	if err != nil {
		e.cfg.Log.Warn("secrets of webhooks are not what they should be", "error", err)
	}
	if clear > 0 {
		e.cfg.Log.Warn("the secrets of webhooks are in the database in clear; want the same webhook_key "+
			"(SLUICE_WEBHOOK_KEY) on every server", "webhooks", clear)
	}
	return nil
}

// settling reports to the metrics what happens after the claim, and how much of
// it waits. The store is read periodically, not at each scrape: a database that
// hangs must not hang the monitoring too.
type settling struct {
	*metrics.Settling
	store port.AuditStore
	every time.Duration

	waits  atomic.Pointer[port.Backlog] // nil: the store has not told
	clocks atomic.Pointer[settle.Clocks]
}

// backlogEvery is how often each server counts what waits in the store.
const backlogEvery = 5 * time.Second

func newSettling(counts *metrics.Metrics, store port.AuditStore, rebuilds func() int64) *settling {
	classes := sluice.DifferenceClasses()
	names := make([]string, 0, len(classes))
	for _, class := range classes {
		if class != sluice.InFlight {
			names = append(names, string(class))
		}
	}
	return &settling{Settling: counts.Settling(names, rebuilds), store: store, every: backlogEvery}
}

func (s *settling) run(ctx context.Context) {
	for range loop.Every(ctx, s.every) {
		s.count(ctx)
	}
}

func (s *settling) count(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.every)
	defer cancel()
	backlog, err := s.store.Backlog(ctx)
	if err != nil { // it is logged by those who need the store
		s.waits.Store(nil)
		s.Backlog(nil)
		return
	}
	s.waits.Store(&backlog)
	s.Backlog(&backlog)
}

// compared notes how the clocks differ.
func (s *settling) compared(c settle.Clocks) {
	s.clocks.Store(&c)
	s.Clocks(c.Store, c.Ledger, c.Behind)
}

// reconciled counts what a reconciliation found, those in flight apart.
func (s *settling) reconciled(r *sluice.ReconcileReport) {
	s.Reconciled()
	for i := range r.Differences {
		if d := &r.Differences[i]; d.Class != sluice.InFlight {
			s.Found(string(d.Class), d.Count, d.Repaired)
		}
	}
}
