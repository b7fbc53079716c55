package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
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
	go func() { // not bound to the first client, which may leave
		ctx, cancel := context.WithTimeout(context.Background(), probePatience)
		defer cancel()
		l.ledger, l.store = find(ctx)
		l.at = now()
		close(l.done)
	}()
	return l
}

// askBoth asks ledger and store at the same time. A ledger that does not answer
// is logged, once for all who ask.
func (s *Server) askBoth(ctx context.Context) (ledger, store error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pinged := make(chan error, 1)
	go func() { pinged <- s.Store.Ping(ctx) }()
	if ledger = s.askLedger(ctx); ledger != nil {
		stop() // there is nothing more to know
		s.Log.Warn("not ready", "error", ledger)
	}
	return ledger, <-pinged
}

// answered is how long a reading of any sale proves that the ledger answers.
const answered = 1500 * time.Millisecond

// askLedger asks whether the ledger decides. Any answer will do: one shard that
// hangs is not the ledger.
func (s *Server) askLedger(ctx context.Context) error {
	if s.Refusing != nil {
		if why := s.Refusing(ctx); why != nil {
			return why
		}
	}
	if s.Board != nil && s.Now().Sub(s.Board.Answered()) < answered {
		return nil
	}
	probes := make([]sluice.SaleID, 16) // any ids will do, of several shards
	for i := range probes {
		probes[i] = sluice.SaleID("readyz-" + strconv.Itoa(i))
	}
	readings, err := s.Ledger.Read(ctx, probes)
	for i := range readings {
		if readings[i].Err == nil {
			return nil
		}
	}
	return err
}

// health says that the process lives.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready says whether this server can decide claims, as of a moment ago.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	s.answerReady(w, r, port.Difference.String)
}

// readyPublic is ready for everybody, who are not told which server has which secret.
func (s *Server) readyPublic(w http.ResponseWriter, r *http.Request) {
	s.answerReady(w, r, func(port.Difference) string { return "a server has other settings; sale check says which" })
}

func (s *Server) answerReady(w http.ResponseWriter, r *http.Request, told func(port.Difference) string) {
	l := s.readiness.ask(s.Now, s.askBoth)
	enough := time.NewTimer(patience) // of a look that does not heed its deadline
	defer enough.Stop()
	select {
	case <-l.done:
	case <-enough.C:
		s.problem(w, sluice.Unavailable.String(), "a database does not answer; try again")
		return
	case <-r.Context().Done(): // the client is gone
		return
	}
	if l.ledger != nil {
		detail := s.ledgerName() + " does not answer; try again"
		if errors.Is(l.ledger, sluice.ErrRefusesWrites) {
			detail = "the ledger refuses to write; the cause is in the server's log"
		}
		s.problem(w, sluice.Unavailable.String(), detail)
		return
	}
	status := s.Kinds
	status.Status, status.StoreState, status.LedgerState = "ready", "ok", "ok"
	if s.Replicas != nil && s.Replicas() != nil { // no server can do without them: none is better than another
		status.LedgerState = "too few replicas; claims of some sales are not accepted"
	}
	if s.Outdated != nil {
		status.Recover = s.Outdated()
	}
	if s.Differ != nil {
		for _, d := range s.Differ() {
			status.Differ = append(status.Differ, told(d))
		}
	}
	if s.StoreRisked != nil {
		for _, risk := range s.StoreRisked() {
			status.StoreRisks = append(status.StoreRisks, risk.Text())
		}
	}
	switch {
	case errors.Is(l.store, sluice.ErrStoreFull):
		status.StoreState = "full; accepted orders wait in the journal"
	case l.store != nil:
		status.StoreState = "down; accepted orders wait in the journal"
	}
	writeJSON(w, http.StatusOK, status)
}
