package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Anyone may ask for readiness, as often as they like, so asking must not cost
// the databases anything: one look at them answers all who ask while it is made,
// and for a moment after.
const (
	// readyFor is how long a look at the databases answers.
	readyFor = 250 * time.Millisecond
	// probePatience bounds a look, and so the answers: probes give up after a second.
	probePatience = 800 * time.Millisecond
)

// readiness is the last look at the databases, or the one being made. The zero
// value has none. It is safe for concurrent use.
type readiness struct {
	mu   sync.Mutex
	last *look // nil: none yet
}

// look is one look at ledger and store.
type look struct {
	done          chan struct{} // closed when the rest is known
	at            time.Time     // when it ended
	ledger, store error         // nil: it answers
}

// ask returns a look that ended lately, or the one that is being made; it starts
// one if there is none. There is never more than one at a time.
func (r *readiness) ask(now func() time.Time, find func(context.Context) (ledger, store error)) *look {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.last; l != nil {
		select {
		case <-l.done:
			if age := now().Sub(l.at); age >= 0 && age < readyFor {
				return l
			}
		default:
			return l
		}
	}
	l := &look{done: make(chan struct{})}
	r.last = l
	go func() { // not for whoever asked first alone: he may leave
		ctx, cancel := context.WithTimeout(context.Background(), probePatience)
		defer cancel()
		l.ledger, l.store = find(ctx)
		l.at = now()
		close(l.done)
	}()
	return l
}

// askBoth asks ledger and store at the same time. Of a ledger that does not
// answer the log is told, once for all who ask.
func (s *Server) askBoth(ctx context.Context) (ledger, store error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pinged := make(chan error, 1)
	go func() { pinged <- s.Store.Ping(ctx) }()
	if _, ledger = s.Ledger.Read(ctx, []sluice.SaleID{"readyz"}); ledger != nil { // any id will do
		stop() // there is nothing more to know
		s.Log.Warn("not ready: the ledger does not answer", "error", ledger)
	}
	return ledger, <-pinged
}

// health says that the process lives.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready says whether this server can decide claims, as of a moment ago.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	l := s.readiness.ask(s.Now, s.askBoth)
	enough := time.NewTimer(patience) // of a look that does not heed its deadline
	defer enough.Stop()
	select {
	case <-l.done:
	case <-enough.C:
		problem(w, sluice.Unavailable.String(), "a database does not answer; try again")
		return
	case <-r.Context().Done(): // nobody reads the answer
		return
	}
	if l.ledger != nil {
		problem(w, sluice.Unavailable.String(), "the ledger does not answer; try again")
		return
	}
	status := s.Kinds
	status.Status, status.StoreState = "ready", "ok"
	if l.store != nil {
		status.StoreState = "down; accepted orders wait in the journal"
	}
	writeJSON(w, http.StatusOK, status)
}
