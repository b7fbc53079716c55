// Package world runs whole worlds from seeds: a sale, its crowd, its operators and its faults,
// against one to three servers, in a bubble of simulated time (testing/synctest). The
// servers are the unmodified engine; ledger and store are SQLite files behind wrappers that
// fail as the plan says. Judges who know nothing of the code compare what clients were told.
package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/port"
)

// Result is what became of a world.
type Result struct {
	Wrong  []string // what judges found; empty: all is well
	Story  []string
	Claims int // requests for an order that were answered
	Calls  int // of ports
}

// world is what runs.
type world struct {
	plan   Plan
	dir    string
	url    string // of ledger and store
	begins time.Time

	turns    *turns
	faults   faults
	receiver *Receiver
	shared   *shared

	storeLives  int
	storePath   string
	storeCopied bool
	storeClock  clock

	mu       sync.Mutex
	servers  []*server
	starting []*server     // that open, or have opened, their ports last
	starts   chan struct{} // holds something while a server starts, or while none may
	lives    []int         // how often another server came in the place of each
	healed   atomic.Bool   // all faults are over
	claims   *claims
	story    []string
	names    map[string]string // short names of order ids
	acting   sync.WaitGroup
}

// clock steps.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// worlds are those that run, by the URL of their ledger and store. A server's URL has its number as well.
var worlds sync.Map

// opensPorts returns the server whose ports are opened.
func opensPorts(url string) (*server, error) {
	name, number, _ := strings.Cut(url, "#")
	w, ok := worlds.Load(name)
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return nil, fmt.Errorf("no such world: %s", url)
	}
	of := w.(*world)
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.starting[n], nil
}

func init() {
	port.RegisterLedger(port.LedgerDriver{
		Kind: "world", Schemes: []string{"world"},
		Open: func(_ context.Context, url string, o port.LedgerOptions) (port.Ledger, error) {
			s, err := opensPorts(url)
			if err != nil {
				return nil, err
			}
			return &ledger{
				way: &way{s, "ledger"}, shared: s.world.shared, name: o.Node, known: map[sluice.SaleID]seen{},
			}, nil
		},
	})
	port.RegisterStore(port.StoreDriver{
		Kind: "world", Schemes: []string{"world"},
		Open: func(ctx context.Context, url string, _ bool) (port.Store, error) {
			s, err := opensPorts(url)
			if err != nil {
				return nil, err
			}
			opened, err := s.world.openStore(ctx)
			if err != nil {
				return nil, err
			}
			return &store{Store: opened, way: &way{s, "store"}}, nil
		},
	})
}

// Run runs a world in a folder of its own. The caller is the main goroutine of a bubble.
func Run(dir string, p Plan, r *Receiver) Result {
	w := &world{
		plan: p, dir: dir, receiver: r, url: "world:" + dir, begins: time.Now(),
		turns:   newTurns(p.Seed),
		servers: make([]*server, p.Servers), starting: make([]*server, p.Servers), lives: make([]int, p.Servers),
		starts: make(chan struct{}, 1),
		names:  map[string]string{}, claims: newClaims(&p),
	}
	w.shared = &shared{clock: new(clock), memo: newMemo()}
	w.storePath = filepath.Join(dir, "store-0.db")
	worlds.Store(w.url, w)
	defer worlds.Delete(w.url)
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.turns.run()
	}()
	wrong := w.happens(context.Background())
	close(w.turns.over)
	<-over
	return Result{Wrong: wrong, Story: w.story, Claims: w.claims.answered, Calls: w.turns.taken}
}

// happens lets the world happen, and judges it.
func (w *world) happens(ctx context.Context) (wrong []string) {
	if err := w.shared.open(ctx, w.dir); err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = w.shared.inner.Close() }()
	for n := range w.plan.Servers {
		if err := w.start(n); err != nil {
			return []string{err.Error()}
		}
	}
	defer w.stop()
	for n := range w.plan.Sales {
		if err := w.createSale(ctx, w.servers[0], n); err != nil {
			return []string{err.Error()}
		}
	}
	if _, err := w.servers[0].admin.CreateWebhook(ctx, api.CreateWebhook{URL: w.receiver.URL}); err != nil {
		return []string{err.Error()}
	}
	over, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		w.read(ctx, over)
	}()
	for i := range w.plan.Acts {
		a := &w.plan.Acts[i]
		time.Sleep(time.Until(w.begins.Add(a.At)))
		w.acting.Go(func() { w.act(ctx, a) })
	}
	w.acting.Wait()
	w.rest(ctx)
	close(over)
	<-read
	return w.judge(ctx)
}

// rest ends all faults, starts who is dead, and waits until nothing moves.
func (w *world) rest(ctx context.Context) {
	w.faults.heal()
	w.healed.Store(true)
	w.tell("all faults are over")
	for range 2 { // a call that was under way may have killed one
		for n := range w.servers {
			w.act(ctx, &Act{Do: "restart", Server: n})
		}
		time.Sleep(5 * time.Second)
	}
	if w.claims.old() { // after a restore a person compares, and recovers
		for n := range w.plan.Sales {
			w.act(ctx, &Act{Do: "reconcile", Sale: n})
		}
		time.Sleep(5 * time.Second)
		for n := range w.plan.Sales {
			w.recover(ctx, &Act{Sale: n})
		}
	}
	for n := range w.plan.Sales {
		w.act(ctx, &Act{Do: "replay", Sale: n})
	}
	w.settle(ctx)
}

// settle waits until nothing has moved for a while. It takes no longer than it may: this judges liveness.
func (w *world) settle(ctx context.Context) {
	latest := time.Now().Add(settles)
	what := "something moves"
	for quiet := 0; quiet < 2; quiet++ {
		if what = w.moves(ctx); what != "" {
			quiet = -1
		}
		if time.Now().After(latest) {
			break
		}
		time.Sleep(3 * time.Second)
	}
	if what != "" {
		w.claims.complain("%v after the last fault %s", settles, what)
	}
}

// moves says what is not at rest.
func (w *world) moves(ctx context.Context) string {
	for _, s := range w.all() {
		if s.dead.Load() {
			return fmt.Sprintf("server %d is dead", s.n)
		}
		for n := range w.plan.Sales {
			if what := w.sells(ctx, s, n); what != "" {
				return fmt.Sprintf("by server %d %s", s.n, what)
			}
		}
		if ready, err := s.admin.Ready(ctx); err != nil {
			return fmt.Sprintf("server %d is not ready: %+v, %v", s.n, ready, err)
		}
	}
	return ""
}

// sells says what of a sale is not at rest.
func (w *world) sells(ctx context.Context, s *server, n int) string {
	id := w.plan.Sales[n].ID
	sale, err := s.admin.AdminSale(ctx, id)
	switch archived := sale.ArchivedAt != nil; { // the ledger has forgotten it
	case client.CodeOf(err) == sluice.SaleNotFound.String() && w.claims.mayLack(n):
		return ""
	case err != nil:
		return fmt.Sprintf("%s: %v", id, err)
	case !archived && (sale.Fence != "" || sale.Backlog != 0 || sale.Taken != sale.StoredTaken ||
		sale.State == sluice.StateUnavailable || sale.Available == nil || *sale.Available+sale.Taken != *sale.Total):
		left, _ := json.Marshal(sale.Available)
		return fmt.Sprintf("%s is %s, fence %q, backlog %d, taken %d by the ledger and %d by the store, %s available of %d",
			id, sale.State, sale.Fence, sale.Backlog, sale.Taken, sale.StoredTaken, left, *sale.Total)
	}
	since := w.shared.clock.now().Sub(w.begins)
	if sale.Available != nil && !w.claims.allows(n, sale.State, *sale.Available, since, w.plan.Sales[n].Closes) {
		return fmt.Sprintf("%s is %s with %d units available, and no operator asked for it", id,
			sale.State, *sale.Available)
	}
	if !w.claims.kept(n, w.storeClock.now()) {
		pending, err := s.admin.AdminOrders(ctx, sluice.OrderFilter{Sale: id, Status: sluice.Pending, Limit: 1})
		if err != nil || len(pending.Orders) > 0 {
			return fmt.Sprintf("orders are pending: %v, %v", pending.Orders, err)
		}
	}
	return ""
}

// stop closes all servers.
func (w *world) stop() {
	for _, s := range w.servers {
		switch {
		case s == nil:
		case s.dead.Load():
			<-s.closed
		default:
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			_ = s.engine.Close(ctx)
			cancel()
		}
	}
}

// createSale creates the nth sale of the plan.
func (w *world) createSale(ctx context.Context, s *server, n int) error {
	t := &w.plan.Sales[n]
	sale := api.CreateSale{
		ID: api.Some(t.ID), SKU: "sku", Title: "A " + string(t.ID),
		Price: api.Some(sluice.Money{Amount: 100, Currency: "CNY"}),
		Total: api.Value(t.Total), MaxPerBuyer: api.Value(t.MaxPerBuyer), OpensAt: api.Some(api.At(w.begins.Add(t.Opens))),
		PaymentWindowS:    api.Some(int64(t.Window / time.Second)),
		PaymentGraceS:     api.Some(int64(t.Grace / time.Second)),
		MaxUnpaidPerBuyer: api.Null[int64](),
	}
	if t.MaxUnpaid > 0 {
		sale.MaxUnpaidPerBuyer = api.Value(t.MaxUnpaid)
	}
	if t.Household > 0 {
		sale.Limits = api.Value([]sluice.Limit{{By: "household", Max: t.Household}})
	}
	if t.MaxOrders > 0 {
		sale.MaxOrdersPerBuyer = api.Value(t.MaxOrders)
	}
	if t.Closes > 0 {
		sale.ClosesAt = api.Value(api.At(w.begins.Add(t.Closes)))
	}
	_, err := s.admin.CreateSale(ctx, sale)
	w.tell("%s, %d units, at most %d a buyer and %d a household, is created: %v", t.ID, t.Total, t.MaxPerBuyer,
		t.Household, err)
	return err
}

// steady reports whether the ledger's clock is right.
func (w *world) steady() bool { return w.shared.clock.ahead.Load() == 0 }

// tell adds a line to the story.
func (w *world) tell(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs  ", time.Since(w.begins).Seconds()) + fmt.Sprintf(format, args...)
	line = w.shorten(line)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, line)
}

// wait returns when it is the turn of what comes from a server, or of an act.
func (w *world) wait(server int, format string, args ...any) {
	w.turns.wait(server, w.shorten(fmt.Sprintf(format, args...)))
}

// orderIDs are those of the sales of a world.
var orderIDs = regexp.MustCompile(`(phone|lamp)\.[0-9a-z]+`)

// shorten gives the order ids in a line short names, in the order in which they appear, and leaves out the
// world's folder.
func (w *world) shorten(line string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return orderIDs.ReplaceAllStringFunc(strings.ReplaceAll(line, w.dir, ""), func(id string) string {
		if w.names[id] == "" {
			w.names[id] = fmt.Sprint("order#", len(w.names)+1)
		}
		return w.names[id]
	})
}

// copyFile copies a file and what belongs to it.
func copyFile(from, to string) error {
	for _, suffix := range []string{"", "-wal", ".name"} {
		if err := os.Remove(to + suffix); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := copyOne(from+suffix, to+suffix); err != nil && (suffix == "" || !os.IsNotExist(err)) {
			return err
		}
	}
	return nil
}

func copyOne(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
