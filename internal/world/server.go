package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

const (
	adminKey    = "admin-key-of-the-world-which-is-long-enough"
	buyerSecret = "buyer-secret-of-the-world-which-is-long-enough"
	webhookKey  = "webhook-key-of-the-world-which-is-long-enough"
)

// server is one life of a server of the world.
type server struct {
	world  *world
	n      int
	engine *engine.Engine // nil: it could not be opened
	opened chan struct{}
	admin  *client.Client
	dead   atomic.Bool
	died   atomic.Pointer[time.Time] // nil while it lives
	frozen atomic.Pointer[freeze]    // the last time
	closed chan struct{}
}

// freeze is a time in which a server does nothing.
type freeze struct{ from, until time.Time }

// turn returns when the server is not frozen, and it is the turn of one of its goroutines.
func (s *server) turn(format string, args ...any) {
	if f := s.frozen.Load(); f != nil {
		time.Sleep(time.Until(f.until))
	}
	s.world.wait(s.n, format, args...)
}

// silentAfter is how long the others wait for a server that says nothing.
const silentAfter = 5 * time.Second

// missedBy reports whether the others did not wait for the server after a loss, until a moment: it was dead, or frozen.
func (s *server) missedBy(loss, at time.Time) bool {
	died, f := s.died.Load(), s.frozen.Load()
	return died != nil && !died.After(at) ||
		f != nil && f.until.Sub(f.from) > silentAfter && f.until.After(loss) && f.from.Before(at)
}

// start opens a server, as the first time or after its death.
func (w *world) start(n int) error {
	s := &server{world: w, n: n, opened: make(chan struct{}), closed: make(chan struct{})}
	defer close(s.opened)
	w.mu.Lock()
	w.starting[n] = s
	name := fmt.Sprint("server-", n, "-", w.lives[n])
	w.mu.Unlock()
	url := fmt.Sprint(w.url, "#", n)
	log := slog.New(slog.NewTextHandler(logTo{w, n}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: noTime}))
	e, err := engine.Open(context.Background(), engine.Config{
		DataDir: filepath.Join(w.dir, name), Node: name,
		Ledger: url, Store: url,
		AdminKey: adminKey, BuyerSecret: buyerSecret, WebhookKey: webhookKey,
		ReconcileInterval: w.plan.Reconcile, Retention: w.plan.Retention, Log: log,
	})
	if err != nil {
		return err
	}
	s.engine = e
	s.admin, err = client.New("http://world", client.Options{
		AdminKey: adminKey, HTTPClient: &http.Client{Transport: inMemory{s, "admin"}, Timeout: 15 * time.Second},
	})
	w.mu.Lock()
	w.servers[n] = s
	w.mu.Unlock()
	return err
}

// kill ends a server where it is. From now on its calls fail, and nobody hears from it.
func (w *world) kill(s *server, where string) {
	if s.dead.Swap(true) {
		return
	}
	now := time.Now()
	s.died.Store(&now)
	w.tell("server %d is killed in %s", s.n, where)
	go func() {
		defer close(s.closed)
		<-s.opened // it may be killed while it opens
		if s.engine != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = s.engine.Close(ctx)
		}
	}()
}

// all returns the servers, dead ones too.
func (w *world) all() []*server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.servers), func(s *server) bool { return s == nil })
}

// live returns a server that lives, the nth or one after it; nil if there is none.
func (w *world) live(n int) *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.servers {
		if s := w.servers[(n+i)%len(w.servers)]; s != nil && !s.dead.Load() {
			return s
		}
	}
	return nil
}

// openStore opens the store's file for one server.
func (w *world) openStore(ctx context.Context) (*sqlitestore.Store, error) {
	return sqlitestore.Open(ctx, w.storePath, sqlitestore.Options{Now: w.storeClock.now})
}

// inMemory makes requests to a server without a network. A server that is killed meanwhile
// gives no answer.
type inMemory struct {
	server *server
	who    string // asks: turns tell requests apart by it
}

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.server.dead.Load() {
		return nil, fmt.Errorf("%s %s: connection refused", r.Method, r.URL.Path)
	}
	// A server's request has its address as the path alone.
	r = r.Clone(r.Context())
	r.RequestURI, r.RemoteAddr, r.Host = r.URL.RequestURI(), "192.0.2.1:1234", "world"
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.server.turn("%s asks %s %s %s", m.who, r.Method, r.URL.Path, body)
	answer := httptest.NewRecorder()
	m.server.engine.Handler().ServeHTTP(answer, r)
	m.server.turn("%s hears of %s %s %s", m.who, r.Method, r.URL.Path, body)
	if m.server.dead.Load() {
		return nil, fmt.Errorf("%s %s: connection lost", r.Method, r.URL.Path)
	}
	if answer.Code == http.StatusInternalServerError {
		m.server.world.claims.complain("%s %s is answered %d %s", r.Method, r.URL.Path, answer.Code, answer.Body)
	}
	return answer.Result(), nil
}

// household is where a buyer lives: three together. Whoever is no buyer of a plan lives alone, and so does
// buyer 0, with whom the judges try a sale at rest.
func household(buyer sluice.BuyerID) string {
	var n int
	if _, err := fmt.Sscanf(string(buyer), "buyer-%d", &n); err != nil {
		return string(buyer)
	}
	return fmt.Sprint("house-", (n+2)/3)
}

// ask makes a buyer's request to a server; status 0: there was no answer.
func (w *world) ask(s *server, method, path string, buyer sluice.BuyerID, key, body string) (status int, reply string) {
	token, err := client.BuyerToken(buyerSecret, client.Token{
		Buyer: buyer, TTL: time.Hour, Signed: map[string]string{"household": household(buyer)},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://world"+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := inMemory{s, fmt.Sprint(buyer, " ", key)}.RoundTrip(request)
	if err != nil {
		return 0, ""
	}
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// logTo tells the story what a server logs.
type logTo struct {
	world  *world
	server int
}

func (l logTo) Write(line []byte) (int, error) {
	l.world.tell("   server %d logs: %s", l.server, strings.TrimSpace(string(line)))
	return len(line), nil
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
