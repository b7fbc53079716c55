package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/notify"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// world is a store with orders, and what receivers have got.
type world struct {
	t     *testing.T
	store *sqlitestore.Store
	made  int

	mu    sync.Mutex
	got   map[string][]sluice.Event // by URL, those that were answered with 200
	tries map[string]int            // by URL
	reply func(url string, e *sluice.Event) (notify.Answer, error)
}

func newWorld(t *testing.T) *world {
	s := must.Get(sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), sqlitestore.Options{}))(t)
	w := &world{t: t, store: s, got: map[string][]sluice.Event{}, tries: map[string]int{}}
	w.answer(func(string, *sluice.Event) (notify.Answer, error) { return notify.Answer{Status: 200}, nil })
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	sale := sluice.Sale{
		ID: "phones", SKU: "sku", Title: "title", Price: sluice.Money{Amount: 1, Currency: "CNY"},
		Terms: sluice.Terms{
			Total: sluice.Unlimited, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited,
			OpensAt: time.UnixMilli(1),
		}, PaymentWindow: time.Hour,
	}
	must.Get(s.CreateSale(t.Context(), sale))(t)
	must.Get(s.BeginLoad(t.Context(), "phones", 0))(t)
	must.Succeed(t, s.ConfirmLoad(t.Context(), "phones", 1))
	w.number()
	return w
}

// answer sets how receivers behave from now on.
func (w *world) answer(reply func(url string, e *sluice.Event) (notify.Answer, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reply = reply
}

func always(status int) func(string, *sluice.Event) (notify.Answer, error) {
	return func(string, *sluice.Event) (notify.Answer, error) { return notify.Answer{Status: status}, nil }
}

func (w *world) number() {
	w.t.Helper()
	for {
		n := must.Get(w.store.NumberEvents(w.t.Context(), 1000))(w.t)
		if n == 0 {
			return
		}
	}
}

// orders stores n orders.
func (w *world) orders(n int) (ids []sluice.OrderID) {
	w.t.Helper()
	entry := port.Entry{
		ID: fmt.Sprint(w.made), Sale: "phones", Epoch: 1, Node: "n", Terms: 1, At: time.UnixMilli(1),
		FirstSeq: int64(w.made) + 1,
	}
	for range n {
		w.made++
		id := sluice.SaleID("phones").Order(fmt.Sprintf("%032x", w.made))
		ids = append(ids, id)
		entry.Claims = append(entry.Claims, sluice.Claim{
			Buyer: "ann", Key: sluice.Key(fmt.Sprintf("key-%08d", w.made)), Order: id, Quantity: 1,
		})
	}
	must.Get(w.store.Insert(w.t.Context(), "phones", []port.Entry{entry}))(w.t)
	w.number()
	return ids
}

func (w *world) change(action sluice.Action, ids ...sluice.OrderID) {
	w.t.Helper()
	for _, id := range ids {
		c := sluice.Change{Order: id, Action: action}
		if action == sluice.Pay {
			c.PaymentID = "p-of-" + string(id)
		}
		must.Get(w.store.Change(w.t.Context(), c))(w.t)
	}
	w.number()
}

// webhook adds one; its URL is its name.
func (w *world) webhook(name string, types ...sluice.EventType) sluice.WebhookID {
	w.t.Helper()
	id := sluice.WebhookID("wh_" + name)
	hook := sluice.Webhook{ID: id, URL: "http://" + name, Types: types}
	hook.SetKey(make([]byte, 32))
	must.Get(w.store.CreateWebhook(w.t.Context(), hook))(w.t)
	return id
}

// post is a receiver.
func (w *world) post(ctx context.Context, m *notify.Message) (notify.Answer, error) {
	var e sluice.Event
	if err := json.Unmarshal(m.Body, &e); err != nil {
		w.t.Error(err)
	}
	if m.ID != e.ID() || len(m.Key) != 32 || time.Since(m.At) > patience {
		w.t.Errorf("message %+v of event %s", m, e.ID())
	}
	w.mu.Lock()
	reply := w.reply
	w.tries[m.URL]++
	w.mu.Unlock()
	a, err := reply(m.URL, &e)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && a.Status == 200 {
		w.got[m.URL] = append(w.got[m.URL], e)
	}
	return a, err
}

func options(w *world, node string) notify.SenderOptions {
	return notify.SenderOptions{
		Node: node, Post: w.post, Encode: func(e *sluice.Event) ([]byte, error) { return json.Marshal(e) },
		Backoff: []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond},
		Probe:   time.Millisecond, MaxProbe: 2 * time.Millisecond, Poll: time.Millisecond,
	}
}

// send runs a sender until the returned function is called.
func (w *world) send(o notify.SenderOptions, store ...notify.SenderStore) (stop func()) {
	if len(store) == 0 {
		store = append(store, w.store)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		notify.NewSender(store[0], o).Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

// until waits for a condition.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func (w *world) show(id sluice.WebhookID) sluice.Webhook {
	w.t.Helper()
	hook := must.Get(w.store.Webhook(w.t.Context(), id))(w.t)
	return hook
}

func (w *world) count(id sluice.WebhookID) (pending, failed int64) {
	w.t.Helper()
	pending, failed, err := w.store.CountDeliveries(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return pending, failed
}

// served reports whether nothing waits for a webhook.
func (w *world) served(id sluice.WebhookID) bool {
	last := must.Get(w.store.LastEvent(w.t.Context()))(w.t)
	// The cursor first: what is waited for is written when it moves, and then
	// becomes less.
	if w.show(id).Cursor != last {
		return false
	}
	pending, _ := w.count(id)
	return pending == 0
}

// mustHave checks what a receiver got: every event after a number that it wants,
// and each subject's in their order, repeats aside.
func (w *world) mustHave(name string, after int64, wants func(*sluice.Event) bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	highest, seen := map[string]int64{}, map[int64]bool{}
	for i := range w.got["http://"+name] {
		e := &w.got["http://"+name][i]
		if e.Seq < highest[e.Subject()] && !seen[e.Seq] {
			w.t.Errorf("%s: event %d came after %d", e.Subject(), e.Seq, highest[e.Subject()])
		}
		highest[e.Subject()] = max(highest[e.Subject()], e.Seq)
		seen[e.Seq] = true
	}
	for {
		page := must.Get(w.store.Events(w.t.Context(), after, sluice.MaxPage))(w.t)
		if len(page) == 0 {
			return
		}
		for i := range page {
			if want := wants(&page[i]); want != seen[page[i].Seq] {
				w.t.Errorf("%s: event %d (%s): got %v, want %v", name, page[i].Seq, page[i].Type, !want, want)
			}
		}
		after += int64(len(page))
	}
}

func all(*sluice.Event) bool { return true }

// A receiver that is down costs few attempts and loses nothing; when it is back
// it gets everything, in order.
func TestReceiverIsDown(t *testing.T) {
	w := newWorld(t)
	id := w.webhook("a")
	w.answer(func(string, *sluice.Event) (notify.Answer, error) { return notify.Answer{}, errors.New("refused") })
	o := options(w, "n")
	o.Backoff = slices.Repeat([]time.Duration{time.Millisecond}, 10_000)
	w.send(o)
	ids := w.orders(400)
	w.until("it is found to be down", func() bool { return w.show(id).Failures > 30 })
	w.change(sluice.Pay, ids[:10]...)
	w.change(sluice.Cancel, ids[10:60]...)
	w.mu.Lock()
	tries := w.tries["http://a"]
	w.mu.Unlock()
	pending, failed := w.count(id)
	if hook := w.show(id); hook.Cursor > 400 || failed != 0 || pending > int64(tries)+400 || hook.RetryAt.IsZero() ||
		hook.LastError != "refused" {
		t.Errorf("%d pending, %d failed after %d attempts: %+v", pending, failed, tries, hook)
	}
	w.answer(always(200))
	w.until("everything is delivered", func() bool { return w.served(id) })
	w.mustHave("a", 2, all)
	if hook := w.show(id); hook.Failures != 0 || !hook.RetryAt.IsZero() {
		t.Errorf("the webhook is %+v", hook)
	}
}

// An event that cannot be delivered holds back the later ones of its order, and
// of no other; when it is given up they pass, and it can be replayed.
func TestOneEventFails(t *testing.T) {
	w := newWorld(t)
	id := w.webhook("a")
	ids := w.orders(30)
	bad := ids[7]
	allow := make(chan struct{})
	w.answer(func(_ string, e *sluice.Event) (notify.Answer, error) {
		if e.Order.ID == bad && e.Type == sluice.EventOrderCreated {
			select {
			case <-allow:
				return notify.Answer{Status: 422}, nil
			default:
				return notify.Answer{Status: 422, RetryAfter: time.Hour}, nil
			}
		}
		return notify.Answer{Status: 200}, nil
	})
	stop := w.send(options(w, "n"))
	w.change(sluice.Pay, ids...)
	w.change(sluice.Refund, bad)
	w.until("only the bad one's are left", func() bool {
		pending, _ := w.count(id)
		return pending == 3 && w.show(id).Cursor == 2+30+30+1
	})
	stop()
	w.mu.Lock()
	for _, e := range w.got["http://a"] {
		if e.Order.ID == bad {
			t.Errorf("%s came before its time", e.Type)
		}
	}
	w.mu.Unlock()

	close(allow)
	w.send(options(w, "n"))
	if _, err := w.store.ReplayFailed(t.Context(), id); err != nil { // it has not failed yet
		t.Fatal(err)
	}
	page, err := w.store.Deliveries(t.Context(), id, sluice.DeliveryPending, 0, 1)
	if err != nil || len(page) != 1 || page[0].Attempts != 1 || page[0].LastStatus != 422 ||
		time.Until(page[0].NextAt) < 50*time.Minute {
		t.Fatalf("kept: %+v, %v", page, err)
	}
	must.Succeed(t, w.store.ReplayEvent(t.Context(), id, page[0].Event, page[0].Subject))
	w.until("it is given up, and the others pass", func() bool {
		pending, failed := w.count(id)
		return pending == 0 && failed == 1
	})
	page, err = w.store.Deliveries(t.Context(), id, sluice.DeliveryFailed, 0, 10)
	if err != nil || len(page) != 1 || page[0].Attempts != 4 || page[0].LastStatus != 422 ||
		page[0].LastError != "HTTP 422 Unprocessable Entity" {
		t.Errorf("failed: %+v, %v", page, err)
	}
	w.answer(always(200))
	if n, err := w.store.ReplayFailed(t.Context(), id); err != nil || n != 1 {
		t.Errorf("replayed %d, %v", n, err)
	}
	w.until("it is delivered", func() bool { _, failed := w.count(id); return failed == 0 && w.served(id) })
	w.mu.Lock()
	defer w.mu.Unlock()
	var of []sluice.EventType
	for _, e := range w.got["http://a"] {
		if e.Order.ID == bad {
			of = append(of, e.Type)
		}
	}
	if want := []sluice.EventType{
		sluice.EventOrderPaid, sluice.EventOrderRefunded,
		sluice.EventOrderCreated,
	}; !slices.Equal(of, want) {
		t.Errorf("the events of the bad order came as %v, want %v", of, want)
	}
}

// 410 disables a webhook; when it is enabled again it goes on where it was.
func TestGone(t *testing.T) {
	w := newWorld(t)
	id := w.webhook("a")
	w.answer(always(410))
	w.send(options(w, "n"))
	w.orders(20)
	w.until("it is disabled", func() bool { return !w.show(id).DisabledAt.IsZero() })
	if hook := w.show(id); hook.DisabledWhy != "HTTP 410: the receiver wants no more events" {
		t.Errorf("disabled: %q", hook.DisabledWhy)
	}
	w.orders(20)
	w.answer(always(200))
	must.Get(w.store.EnableWebhook(t.Context(), id))(t)
	w.until("everything is delivered", func() bool { return w.served(id) })
	w.mustHave("a", 2, all)
}

// What is sent again after a buyer was erased, all events or one that had failed, has
// the buyer's pseudonym: a delivery keeps an event's number, and no copy of it.
func TestErasedBuyer(t *testing.T) {
	w := newWorld(t)
	must.Get(w.store.SealSecrets(t.Context(), "0123456789abcdef0123456789abcdef"))(t)
	id := w.webhook("a")
	orders := w.orders(2)
	w.answer(func(_ string, e *sluice.Event) (notify.Answer, error) {
		if e.Subject() == string(orders[1]) {
			return notify.Answer{Status: 400}, nil
		}
		return notify.Answer{Status: 200}, nil
	})
	w.send(options(w, "n"))
	w.change(sluice.Cancel, orders...)
	w.until("one order delivered, the other given up", func() bool {
		_, failed := w.count(id)
		return w.served(id) && failed > 0
	})

	sale := must.Get(w.store.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error {
		sale.ClosesAt = time.Now().Add(-time.Hour)
		return nil
	}))(t)
	given := func(sluice.SaleID, []port.Release) error { return nil }
	must.Get(w.store.GiveReleases(t.Context(), 100, given))(t)
	if done, err := w.store.Archive(t.Context(), sale.ID); err != nil || !done {
		t.Fatalf("archived %v, %v", done, err)
	}
	if erased, err := w.store.EraseBuyer(t.Context(), "ann"); err != nil || erased.Orders != 2 {
		t.Fatalf("%+v, %v", erased, err)
	}
	w.mu.Lock()
	before := len(w.got["http://a"])
	w.mu.Unlock()
	w.answer(always(200))
	must.Get(w.store.ReplayFailed(t.Context(), id))(t)
	must.Succeed(t, w.store.ReplayFrom(t.Context(), id, 1))
	w.number()
	w.until("everything sent again", func() bool {
		_, failed := w.count(id)
		return w.served(id) && failed == 0
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	named := map[sluice.OrderID]bool{}
	for _, e := range w.got["http://a"][before:] {
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, "ann") {
			t.Errorf("sent after the erasure: %s", text)
		}
		if strings.HasPrefix(string(e.Order.Buyer), "erased-") {
			named[e.Order.ID] = true
		}
	}
	if len(named) != 2 {
		t.Errorf("sent again with a pseudonym: %v, want both orders", named)
	}
}

// A receiver that does not answer keeps no other waiting.
func TestSlowReceiver(t *testing.T) {
	w := newWorld(t)
	slow, fast := w.webhook("slow"), w.webhook("fast")
	release := make(chan struct{})
	w.answer(func(url string, _ *sluice.Event) (notify.Answer, error) {
		if url == "http://slow" {
			<-release
		}
		return notify.Answer{Status: 200}, nil
	})
	stop := w.send(options(w, "n"))
	w.orders(300)
	w.until("the fast one has everything", func() bool { return w.served(fast) })
	if hook := w.show(slow); hook.Delivered != 0 {
		t.Errorf("the slow one has got %d", hook.Delivered)
	}
	close(release)
	w.until("the slow one has everything as well", func() bool { return w.served(slow) })
	stop()
	w.mustHave("fast", 2, all)
	w.mustHave("slow", 2, all)
}

// crashing is a store in whose process nothing is recorded: its sender is
// killed between sending and recording.
type crashing struct {
	*sqlitestore.Store
	crashed chan struct{}
	once    sync.Once
}

func (c *crashing) Advance(context.Context, sluice.WebhookID, port.Progress) (bool, error) {
	c.once.Do(func() { close(c.crashed) })
	return false, errors.New("killed")
}
func (c *crashing) Unlease(context.Context, string, string) error { return errors.New("killed") }

// A server that is killed after sending and before recording leaves its lease
// to another one, which sends again; nothing is lost.
func TestTakeover(t *testing.T) {
	w := newWorld(t)
	id := w.webhook("a")
	w.orders(50)
	dying := &crashing{Store: w.store, crashed: make(chan struct{})}
	o := options(w, "first")
	o.Timeout, o.Margin = time.Millisecond, 500*time.Millisecond // so that the lease ends soon
	stop := w.send(o, dying)
	<-dying.crashed
	stop()
	if hook := w.show(id); hook.Cursor != 2 {
		t.Errorf("the cursor is %d", hook.Cursor)
	}
	o = options(w, "second")
	w.send(o)
	w.until("everything is delivered", func() bool { return w.served(id) })
	w.mustHave("a", 2, all)
}

// Two servers: one sends, and when it stops the other one does at once.
func TestTwoServers(t *testing.T) {
	w := newWorld(t)
	id := w.webhook("a")
	stopFirst := w.send(options(w, "first"))
	w.send(options(w, "second"))
	w.orders(100)
	w.until("everything is delivered", func() bool { return w.served(id) })
	stopFirst()
	w.orders(100)
	w.until("everything is delivered by the sender that is left", func() bool { return w.served(id) })
	w.mustHave("a", 2, all)
	if hook := w.show(id); hook.Delivered != 200 {
		t.Errorf("%d delivered, want each once: no sender died", hook.Delivered)
	}
}
