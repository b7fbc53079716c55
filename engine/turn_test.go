package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
)

// One audit or reconciliation runs at a time, and none waits without end.
func TestTurn(t *testing.T) {
	server := httpapi.NewServer(nil, httpapi.NewConnections(1, httpapi.Proxies{}, slog.New(slog.DiscardHandler)))
	if turnPatience > server.WriteTimeout/2 {
		t.Errorf("a request waits %v for its turn, and then has %v to be answered", turnPatience,
			server.WriteTimeout-turnPatience)
	}
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{reconcile: newReconcileJob(&reconcileJob{})}
		done := must.Get(e.reconcile.turn.take(t.Context(), time.Second))(t)
		began := time.Now()
		if _, err := e.Audit(t.Context(), "phone"); !errors.Is(err, sluice.ErrAuditBusy) ||
			time.Since(began) != turnPatience {
			t.Errorf("an audit beside another, after %v: %v", time.Since(began), err)
		}
		if _, err := e.Reconcile(t.Context(), "phone", true); !errors.Is(err, sluice.ErrAuditBusy) {
			t.Errorf("a reconciliation beside an audit: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Audit(gone, "phone"); !errors.Is(err, context.Canceled) {
			t.Errorf("a request that is gone: %v", err)
		}
		time.AfterFunc(time.Second, done)
		next := must.Get(e.reconcile.turn.take(t.Context(), 2*time.Second))(t)
		next()
	})
}
