package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// readyLedger and readyStore count requests, and answer as the test sets.
type readyLedger struct {
	port.Reader
	asked  atomic.Int64
	answer func(context.Context) error
}

func (l *readyLedger) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	l.asked.Add(1)
	if err := l.answer(ctx); err != nil {
		return nil, err
	}
	return make([]port.Reading, len(sales)), nil
}

type readyStore struct {
	port.Store
	asked  atomic.Int64
	answer func(context.Context) error
}

func (s *readyStore) Ping(ctx context.Context) error {
	s.asked.Add(1)
	return s.answer(ctx)
}

// readyServer is a server with nothing but these, and a clock that stands.
type readyServer struct {
	*Server
	ledger *readyLedger
	store  *readyStore
	now    atomic.Int64 // nanoseconds
}

func newReadyServer() *readyServer {
	fine := func(context.Context) error { return nil }
	s := &readyServer{ledger: &readyLedger{answer: fine}, store: &readyStore{answer: fine}}
	s.Server = &Server{Options: Options{
		Ledger: s.ledger, Store: s.store, Log: slog.New(slog.DiscardHandler), Now: func() time.Time {
			return time.Unix(0, s.now.Load())
		},
	}}
	return s
}

func (s *readyServer) pass(d time.Duration) { s.now.Add(int64(d)) }

func (s *readyServer) get(ctx context.Context) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ready(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
	return w
}

func (s *readyServer) want(t *testing.T, what string, status int, contains string, asked int64) {
	t.Helper()
	w := s.get(t.Context())
	if w.Code != status || !strings.Contains(w.Body.String(), contains) {
		t.Errorf("%s: %d %s; want %d and %q", what, w.Code, w.Body, status, contains)
	}
	if ledger, store := s.ledger.asked.Load(), s.store.asked.Load(); ledger != asked || store > asked {
		t.Errorf("%s: the ledger was asked %d times and the store %d times, want %d", what, ledger, store, asked)
	}
}

// However often readiness is asked for, the databases are asked four times a
// second at most, also when they are down.
func TestReadinessIsRemembered(t *testing.T) {
	s := newReadyServer()
	s.want(t, "the first", 200, `"store_state":"ok"`, 1)
	for range 100 {
		s.want(t, "at once", 200, `"status":"ready"`, 1)
	}
	s.ledger.answer = func(context.Context) error { return errors.New("down") }
	s.pass(readyFor - 1)
	s.want(t, "a moment later", 200, "ready", 1)
	s.pass(1)
	s.want(t, "later", 503, "unavailable", 2)
	s.want(t, "at once", 503, "unavailable", 2)
	s.ledger.answer = func(context.Context) error { return nil }
	s.store.answer = s.ledger.answer
	s.pass(readyFor)
	s.want(t, "up again", 200, `"store_state":"ok"`, 3)
	s.store.answer = func(context.Context) error { return errors.New("down") }
	s.pass(-time.Hour)
	s.want(t, "a clock that was set back", 200, "down; accepted orders wait", 4)
}

// Requests that come while the databases are asked wait for that answer, even
// when the first client is gone.
func TestReadinessIsAskedForOnce(t *testing.T) {
	s := newReadyServer()
	asked, answer := make(chan struct{}), make(chan struct{})
	s.ledger.answer = func(context.Context) error {
		close(asked) // twice would be a panic
		<-answer
		return nil
	}
	first, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.get(first) })
	<-asked
	leave()
	all.Wait() // the first has left
	for range 50 {
		all.Go(func() {
			if w := s.get(t.Context()); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	close(answer)
	all.Wait()
	s.want(t, "afterwards", 200, "ready", 1)
}

// A database that hangs is asked once at a time, and no request waits for it
// longer than a probe does; the second one does not even heed its deadline.
func TestReadinessOfWhatHangs(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	defer close(end)
	for name, hang := range map[string]func(context.Context) error{
		"heeds its deadline": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"heeds nothing":      func(context.Context) error { <-end; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newReadyServer()
			s.ledger.answer = hang
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if w := s.get(t.Context()); w.Code != 503 || !strings.Contains(w.Body.String(), "unavailable") {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			}
			all.Wait()
			if n := s.ledger.asked.Load(); n != 1 {
				t.Errorf("the ledger was asked %d times", n)
			}
		})
	}
	s := newReadyServer()
	s.store.answer = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	s.want(t, "the store hangs", 200, "down; accepted orders wait", 1)
}
