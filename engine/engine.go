// Package engine composes Sluice: Open gives a running engine and its HTTP
// handler. It is what a program that embeds Sluice imports.
//
//	e, err := engine.Open(ctx, engine.Config{DataDir: "./sluice-data"})
//	if err != nil { ... }
//	defer e.Close(context.Background()) // or with ShutdownTimeout
//	http.ListenAndServe("127.0.0.1:8080", e.Handler())
//
// It can be called without HTTP as well: Claim, Events, Control.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/curve"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/loglimit"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/metrics"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/internal/web"
)

// rememberStored is how long a server remembers accepted claims that are stored where
// they were decided: a standby that takes the database's place may lack them.
const rememberStored = time.Minute

// maxBatch is how many claims one call of a ledger takes, unless its driver says.
const maxBatch = 1000

// Engine is a running Sluice. It is safe for concurrent use.
type Engine struct {
	cfg          Config
	log          *loglimit.Handler // of cfg.Log
	folder       *folder
	node         string
	adminKey     string
	secret       string
	ticketSecret string // signs tickets
	who          who
	eligibility  eligibility

	backends
	board     *admission.Board
	batcher   *admission.Batcher
	gate      *admission.Gate
	pipeline  *pipeline.Pipeline
	follower  *follower
	forgetter *forgetter
	ender     *settle.Ender
	memory    *settle.Memory
	server    *httpapi.Server

	connections listeners
	claims      *metrics.Claims
	requests    *metrics.Requests
	replicas    *replicaWatch // nil: claims wait for no replicas
	durability  *durability   // nil: the store is no server's
	control     *settle.Control

	reconcile *reconcileJob
	settling  *settling
	events    eventJobs

	conditions *conditions

	stop   context.CancelFunc
	leave  func() // the program's metrics; nil: none were given
	loops  sync.WaitGroup
	closed sync.Once
	ended  atomic.Bool // Close has begun
	err    error       // of closing
}

// Open starts an engine. The ledger must answer. So must the store, unless
// this data folder has seen it before: then its absence is only logged, and
// accepted claims wait in the journal.
//
// Errors: sluice.ErrInUse if another process owns the data folder; a sentence
// about the URL or the backend otherwise. Close the engine to free everything.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg.withDefaults(), stop: func() {}}
	e.log = loglimit.New(e.cfg.Log.Handler())
	e.cfg.Log = slog.New(e.log)
	if err := e.open(ctx); err != nil {
		_ = e.release()
		return nil, err
	}
	return e, nil
}

func (e *Engine) open(ctx context.Context) (err error) {
	if e.folder, err = openFolder(e.cfg.DataDir, e.cfg.Log); err != nil {
		return err
	}
	if e.node, err = e.folder.node(e.cfg.Node); err != nil {
		return err
	}
	if e.adminKey, err = e.folder.secret(e.cfg.AdminKey, "admin.key"); err != nil {
		return err
	}
	if err = errors.Join(e.openSecret(), e.openIdentity(ctx)); err == nil {
		err = e.openEligibility()
	}
	if err != nil {
		return err
	}
	if err := e.openBackends(ctx); err != nil {
		return err
	}
	asking, cancel := e.asking(ctx)
	defer cancel()
	if err := e.sealWebhooks(asking); err != nil {
		return err
	}
	if err := e.compose(); err != nil {
		return err
	}
	e.warn(ctx)
	e.start(ctx)
	return nil
}

// compose wires the parts, from the bottom up; nothing runs yet. Where a part reports to one that
// is made after it, a function of its options reads the engine's field when it is called.
func (e *Engine) compose() error {
	counts := metrics.New(e.saleMetrics)
	counts.Build(e.cfg.Version)
	loader := settle.NewLoader(e.store, e.ledger)
	e.control = settle.NewControl(e.store, e.ledger, loader)
	way := counts.Way(admission.Stages())
	e.memory = settle.NewMemory(settle.DefaultMemory)
	if e.cfg.Ledger == inStore {
		e.memory.Keep(rememberStored)
		loader.InStore()
	}
	board := admission.BoardOptions{
		Refresh: e.cfg.RefreshInterval, Encode: httpapi.EncodeSale, Refreshed: e.refreshed, Gone: e.gone, Log: e.cfg.Log,
		Rules: e.folder.rules(), RulesChanged: e.rulesChanged,
	}
	if e.replica != nil {
		board.Replica = e.replica
	}
	e.board = admission.NewBoard(e.ledger, e.store, board)
	if e.replica != nil {
		counts.Replica(e.board.ReplicaUp)
	}
	traces, err := newTracing(&e.cfg, e.node, e.board.LedgerTime)
	if err != nil {
		return err
	}
	if traces != nil {
		counts.Traces(e.cfg.Tracer.Dropped)
	}
	e.pipeline = e.newPipeline(counts, way, traces)
	e.batcher = e.newBatcher(counts, way, traces)
	replayer := settle.NewReplayer(e.store, e.ledger, loader, e.decided)
	peers := &peers{log: e.cfg.Log, self: port.Server{
		Node: e.node, Version: e.cfg.Version, Admin: e.cfg.AdminAddress, Shared: e.shared(),
	}}
	e.follower = newFollower(&follower{
		ledger: e.ledger, loader: loader, board: e.board, log: e.cfg.Log, node: e.node, store: e.store, replayer: replayer,
		peers:     peers,
		stores:    e.pipeline.Wake,
		archiver:  settle.NewArchiver(e.store, e.ledger, e.cfg.Retention),
		rebuilder: settle.NewRebuilder(e.node, e.store, e.ledger, loader, e.memory, e.batcher.Idle, e.cfg.Log),
	})
	e.follower.rebuilder.Missed(e.follower.missedUntil)
	e.settling = newSettling(counts, e.store, e.follower.rebuilder.Rebuilds)
	e.forgetter = newForgetter(e.store, e.ledger, e.cfg.Log)
	e.ender = e.newEnder()
	e.reconcile = newReconcileJob(&reconcileJob{
		node: e.node, every: e.cfg.ReconcileInterval, store: e.store, board: e.board, log: e.cfg.Log,
		reconciler: settle.NewReconciler(e.store, e.ledger, loader), settled: e.settling.reconciled,
	})
	counts.Differences(e.reconcile.differences)
	counts.Servers(func() int { return len(peers.differences()) })
	e.who.measure(counts)
	e.events.compose(e, counts)
	pages, err := e.newPages()
	if err != nil {
		return err
	}
	eligibility := e.eligibility.compose(e, counts.Eligibility())
	e.gate = admission.NewGate(e.board, e.batcher, e.store)
	e.gate.Guard(e.eligibility.check, e.ledger)
	counts.Gate(e.gate.Refused, e.batcher.InFlight)
	proxies := httpapi.Proxies{Trusted: e.cfg.TrustedProxies, Header: e.cfg.ClientAddressHeader}
	e.connections.compose(e, proxies, counts)
	e.claims = counts.Claims(func(sale sluice.SaleID) bool {
		view := e.board.View(sale)
		return view != nil && !view.Archived()
	}, e.saleMetrics, httpapi.ClaimCodes(), httpapi.RefusalReasons())
	e.conditions, e.requests = &conditions{Engine: e}, counts.Requests(httpapi.Patterns())
	e.server = httpapi.New(e.serverOptions(counts, way, pages, eligibility, proxies))
	counts.Streams(e.server.Streams, e.server.StreamsRefused)
	if e.cfg.Registerer != nil { // all that it reads is there
		e.leave, err = counts.Join(e.cfg.Registerer)
	}
	return err
}

// newPipeline returns what stores the journal.
func (e *Engine) newPipeline(counts *metrics.Metrics, way *metrics.Way, traces *tracing) *pipeline.Pipeline {
	return pipeline.New(e.ledger, e.store, pipeline.Options{
		MaxClaims: e.storeDriver.MaxOrders, Abandoned: e.cfg.AbandonedAfter,
		Transaction: func(entries []port.Entry, stored port.Stored, took time.Duration, err error) {
			way.Transaction(entries, &stored, took, e.ledgerTime(), err)
			if traces != nil {
				traces.stored(entries, &stored, took, err)
			}
		},
		May: func(sale sluice.SaleID) bool { return e.follower.mayStore(sale) }, // which is not made yet
		Stored: func(_ sluice.SaleID, s port.Stored) {
			counts.Stored(s)
			e.events.numberer.Wake()
		},
		SetAside: func(sale sluice.SaleID) {
			e.settling.SetAside()
			e.follower.aside(sale)
		},
		Log: e.cfg.Log,
	})
}

// newBatcher returns what calls the ledger with claims.
func (e *Engine) newBatcher(counts *metrics.Metrics, way *metrics.Way, traces *tracing) *admission.Batcher {
	var traced func(admission.Way) // nil: no traces
	if traces != nil {
		traced = traces.decided
	}
	return admission.NewBatcher(e.ledger, admission.BatcherOptions{
		MaxQueue: e.cfg.ClaimQueue, MaxBatch: cmp.Or(e.ledgerDriver.MaxBatch, maxBatch),
		MaxInFlight: e.cfg.ClaimsInFlight, Limiter: e.ledger,
		Took: way.Stage, CallTook: way.CallTook, Traced: traced,
		Failed: func(sale sluice.SaleID, err error) {
			e.cfg.Log.Warn("claims cannot be decided", "sale", sale, "error", err) // loglimit counts the rest
		},
		Decided: func(sale sluice.SaleID, claims []sluice.Claim, decisions []sluice.Decision) {
			counts.Decided(len(decisions))
			e.decided(sale, claims, decisions)
		},
	})
}

// newEnder returns what expires orders and returns their units.
func (e *Engine) newEnder() *settle.Ender {
	return settle.NewEnder(e.store, e.ledger, settle.EnderOptions{
		Every:      e.cfg.ExpiryInterval,
		May:        e.follower.mayStore,
		LedgerTime: e.ledgerTime,
		Clocks:     e.settling.compared,
		Ended: func(sale sluice.SaleID, orders int) {
			e.settling.Expired(sale, orders)
			e.events.numberer.Wake()
		},
		Released: func(sale sluice.SaleID, result port.Released) {
			e.settling.Released(&result)
			e.board.Wake(sale)
		},
		Log: e.cfg.Log,
	})
}

// serverOptions hands the parts to the HTTP server.
func (e *Engine) serverOptions(
	counts *metrics.Metrics, way *metrics.Way, pages *web.Pages,
	eligibility httpapi.Eligibility, proxies httpapi.Proxies,
) httpapi.Options {
	options := httpapi.Options{
		TryWebhook:  e.events.try,
		Base:        e.cfg.BasePath,
		Eligibility: eligibility,
		Proxies:     proxies,
		Events: httpapi.EventsOptions{
			Streams: e.cfg.EventStreams, PerAddress: e.cfg.EventsPerAddress, Streamed: way.Streamed,
		},
		Origins:  e.cfg.CORSOrigins,
		Refusing: e.refuses,
		Gate:     e.gate, Board: e.board, Control: e.control,
		Store:  e.store,
		Ledger: e.ledger,
		Audit:  e.Audit,
		Changed: func(o *sluice.Order) {
			if !o.Status.Live() {
				e.ender.Wake()
			}
			e.events.numberer.Wake()
		},
		Replay:    e.follower.replay,
		NewSaleID: admission.NewSaleID, PictureHosts: e.cfg.Pages.PictureHosts,
		Reconcile: e.Reconcile,
		Recover:   e.Recover, Outdated: e.follower.outdatedSales, Foreign: e.follower.loader.Foreign,
		Differ:   e.follower.peers.differences,
		Standing: e.conditions.now, Peers: e.follower.peers.known,
		Kinds:    api.Ready{Node: e.node, Ledger: e.ledgerDriver.Kind, Store: e.storeDriver.Kind},
		Buyers:   e.who.verifier,
		Identify: e.cfg.Identify, Signed: e.cfg.Signed,
		Admins: e.who.admins, AdminDecided: counts.AdminActions(),
		Pages: pages, Console: e.newConsole(), Metrics: counts.Handler(), Log: e.cfg.Log,
		Claims: e.claims, Timer: e.requests, LogLevel: e.cfg.Verbosity,
	}
	if _, ok := port.As[port.Risky](e.ledger); ok {
		options.LedgerRisks = e.risks
	}
	if e.durability = newDurability(e.store, e.cfg.Log); e.durability != nil {
		options.StoreRisks, options.StoreRisked = e.durability.look, e.durability.now
	}
	if e.replicas = newReplicaWatch(e.ledger, &e.cfg); e.replicas != nil {
		options.Confirmed, options.Replicas = e.replicas.ledger.Confirmed, e.replicas.now
	}
	return options
}

// start reads what there is and starts the loops.
func (e *Engine) start(ctx context.Context) {
	asking, cancel := e.asking(ctx)
	err := errors.Join(e.board.ReadSales(asking), e.board.Refresh(ctx))
	cancel()
	if err != nil {
		e.cfg.Log.Warn("the board is not complete yet", "error", err)
	}
	asking, cancel = e.asking(ctx)
	e.eligibility.first(asking, e)
	cancel()
	e.follower.name(ctx)
	e.follower.first(ctx, err == nil)
	running, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.loops.Go(func() { e.board.Run(running) })
	e.loops.Go(func() { e.who.run(running) })
	e.loops.Go(func() { e.eligibility.lists.Run(running) })
	e.loops.Go(func() { e.follower.run(running) })
	e.loops.Go(func() { e.forgetter.run(running) })
	e.loops.Go(func() { e.follower.heartbeat(running) })
	e.loops.Go(func() { e.ender.Run(running) })
	e.loops.Go(func() { e.reconcile.run(running) })
	e.loops.Go(func() { e.settling.run(running) })
	e.loops.Go(func() { e.conditions.run(running) })
	recorder := curve.NewRecorder(e.node, e.store.KeepStretches)
	e.loops.Go(func() { e.recordCurves(running, recorder) })
	e.loops.Go(func() { e.keepCurves(running, recorder) })
	e.loops.Go(func() {
		keep := retention{records: e.cfg.RecordRetention, orders: e.cfg.OrderRetention, ledgerTime: e.ledgerTime}
		tidy(running, e.store, e.node, keep, e.cfg.Log)
	})
	e.loops.Go(func() {
		for range loop.Every(running, metrics.TurnEvery) {
			e.claims.Turn(time.Now())
		}
	})
	if e.durability != nil {
		e.loops.Go(func() { e.durability.run(running) })
	}
	if e.replicas != nil {
		e.loops.Go(func() { e.replicas.run(running) })
	}
	e.loops.Go(func() { e.tidyMemory(running) })
	e.events.start(running, e)
}

// tidyMemory gives back what opening has left: mostly parsed migrations, more than an idle
// engine uses. It does not while claims are on their way: they would wait for it, and a rush
// uses that memory.
func (e *Engine) tidyMemory(ctx context.Context) {
	if loop.Wait(ctx, time.Second, nil) && e.batcher.InFlight() == 0 {
		debug.FreeOSMemory()
	}
}

func (e *Engine) ledgerTime() time.Time { return e.board.LedgerTime(time.Now()) }

// decided is called after every ledger call: accepted claims wake the pipeline, and
// a refusal that the board does not know yet asks for a new reading, so that
// the rest of the crowd costs the ledger nothing.
func (e *Engine) decided(sale sluice.SaleID, claims []sluice.Claim, decisions []sluice.Decision) {
	e.memory.Decided(sale, e.node, claims, decisions)
	accepted, refused := false, false
	for i := range decisions {
		switch d := &decisions[i]; d.Code {
		case sluice.Accepted:
			accepted = accepted || !d.Replayed
		case sluice.SoldOut, sluice.Closed, sluice.Paused, sluice.Unavailable:
			refused = true
		}
	}
	if accepted && e.cfg.Ledger == inStore { // where no pipeline stores
		e.events.numberer.Wake()
	}
	if accepted {
		e.pipeline.Wake(sale)
	}
	if refused {
		e.board.Wake(sale)
	}
}

// refreshed is called with new views: entries of other servers, or of before
// a restart, wake the pipeline; a sale out of step wakes the follower.
func (e *Engine) refreshed(views map[sluice.SaleID]*admission.View) {
	for id, v := range views {
		if v.Archived() {
			e.forgetter.saw(v)
			e.memory.Over(id)
			continue
		}
		e.memory.Told(&v.Sale)
		e.memory.Read(&v.Reading, v.Asked)
		if v.Reading.Backlog > 0 {
			e.pipeline.Wake(id)
		}
	}
	e.follower.saw(views)
}

// gone is called with a sale that the store no longer has. One with orders is never deleted.
func (e *Engine) gone(sale sluice.SaleID) {
	if n := e.memory.Claims(sale); n > 0 {
		e.cfg.Log.Error("a sale with accepted claims has gone from the store: it is a copy from before the sale",
			"sale", sale, "claims", n)
	}
	e.memory.Over(sale)
}

// rulesChanged keeps the rules of all sales.
func (e *Engine) rulesChanged(rules map[sluice.SaleID]sluice.Rules) {
	if err := e.folder.keepRules(rules); err != nil {
		e.cfg.Log.Warn("the rules of the sales cannot be kept for a start without the store", "error", err)
	}
}

// Node returns this server's name, AdminKey the merchant's key and BuyerSecret
// the secret of buyers' HS256 tokens: those configured, or generated and kept.
// There is no secret if there is a JWKS and none is configured.
func (e *Engine) Node() string        { return e.node }
func (e *Engine) AdminKey() string    { return e.adminKey }
func (e *Engine) BuyerSecret() string { return e.secret }

// Control returns what operators do to sales, for programs that do it without
// HTTP.
func (e *Engine) Control() sluice.Control { return control{e.control, e} }

// control is for programs, where a total that was forgotten is 0; over HTTP it is an error. What is
// wrong with a sale it says as the API does, before a database is asked.
type control struct {
	*settle.Control
	engine *Engine
}

func (c control) Create(ctx context.Context, sale sluice.Sale) (sluice.Sale, error) {
	sale = c.withDefaults(sale)
	if err := sale.Validate(); err != nil {
		return sluice.Sale{}, err
	}
	made, err := c.Control.Create(ctx, sale)
	if err == nil && made.Total == 0 {
		c.engine.cfg.Log.Warn("the new sale has no units: every claim is sold out until it is restocked", "sale", made.ID)
	}
	return made, err
}

func (c control) Patch(ctx context.Context, id sluice.SaleID, edit func(*sluice.Sale) error) (sluice.Sale, error) {
	return c.Control.Patch(ctx, id, func(sale *sluice.Sale) error {
		if err := edit(sale); err != nil {
			return err
		}
		return sale.Validate()
	})
}

func (c control) Delete(ctx context.Context, id sluice.SaleID) error {
	err := c.Control.Delete(ctx, id)
	if err == nil {
		c.engine.board.Forget(id)
	}
	return err
}

// Audit proves one sale, also while it runs. One audit or reconciliation runs at
// a time; sluice.ErrAuditBusy if others take longer than 15 seconds.
func (e *Engine) Audit(ctx context.Context, sale sluice.SaleID) (sluice.AuditReport, error) {
	done, err := e.reconcile.turn.take(ctx, turnPatience)
	if err != nil {
		return sluice.AuditReport{}, err
	}
	defer done()
	return audit.Run(ctx, e.ledger, e.store, sale)
}

// Backlog counts the journal entries of all sales that are not stored yet.
func (e *Engine) Backlog() int64 {
	var n int64
	for _, v := range e.board.Views() {
		n += v.Reading.Backlog
	}
	return n
}

func (e *Engine) saleMetrics() []metrics.Sale {
	views := e.board.Views()
	sales := make([]metrics.Sale, 0, len(views))
	for id, v := range views {
		sales = append(sales, metrics.Sale{
			ID: id, Taken: v.Shown().Taken, Available: v.Available(), Backlog: v.Reading.Backlog,
			Fenced: v.Reading.Fence != "" || v.Sale.Fence != "",
		})
	}
	return sales
}

// Close stops taking claims, decides those that were taken, stores what is in
// the journal, and frees everything; until the context ends, then it stops
// where it is. What is not stored then stays in the journal, for the next
// start, and what hangs, such as a call of a ledger, is left to the end of the process.
// Stop the HTTP server first. It is idempotent.
func (e *Engine) Close(ctx context.Context) error {
	e.closed.Do(func() {
		e.ended.Store(true)
		e.server.CloseStreams()
		e.err = e.batcher.Close(ctx)
		released, over := make(chan error, 1), make(chan struct{})
		go func() { released <- errors.Join(e.pipeline.Close(ctx), e.release()) }()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(releaseFor, func() { close(over) }) })()
		select {
		case err := <-released:
			e.err = errors.Join(e.err, err)
		case <-over:
			e.err = errors.Join(e.err, fmt.Errorf("engine: something hangs and is not freed: %w", ctx.Err()))
		}
	})
	return e.err
}

// releaseFor is how long after the end of its context Close waits for what is freed.
const releaseFor = time.Second

// release frees what open has made, however far it came.
func (e *Engine) release() (err error) {
	e.stop()
	e.loops.Wait()
	if e.leave != nil {
		e.leave()
	}
	e.who.close()
	e.eligibility.close()
	if e.ledger != nil { // before the store, which it may be in
		err = e.ledger.Close()
	}
	if e.store != nil {
		err = errors.Join(err, e.store.Close())
	}
	if e.replica != nil {
		err = errors.Join(err, e.replica.Close())
	}
	if e.folder != nil {
		err = errors.Join(err, e.folder.close())
	}
	e.log.Close()
	return err
}

// ShutdownTimeout is a good limit for Close when nothing else bounds it.
const ShutdownTimeout = 15 * time.Second
