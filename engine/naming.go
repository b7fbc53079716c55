package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// nameTimeout is short: heartbeats wait for it.
const nameTimeout = 500 * time.Millisecond

// name says which ledger this server has, to all that depends on it. Without an answer
// it is the one that it was.
func (f *follower) name(ctx context.Context) {
	ledger, ok := port.As[port.NamedLedger](f.ledger)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	name, made, err := ledger.Name(ctx)
	if err != nil {
		f.log.Debug("the ledger does not say its name", "error", err)
		return
	}
	if f.named != name {
		f.named = name
		f.store.UseLedger(name)
		f.loader.Names(name)
	}
	f.made.Store(made)
}

// unsure reports whether a sale's row names a ledger, and this server's has not said
// its name yet. Then all that the server may do is wait.
func (f *follower) unsure(sale *sluice.Sale) bool {
	_, ok := port.As[port.NamedLedger](f.ledger)
	return ok && sale.Ledger != "" && f.loader.Name() == ""
}

// mayTake reports whether a sale may have lost its ledger, and this one, of the same kind,
// has just been made. What waits for a person is left to one. A database that was down, or
// has become an older copy of itself, has no recent heartbeat of any server, and those of
// the sale's ledger may live. So this server's own must have arrived for a while, and stayed.
func (f *follower) mayTake(sale *sluice.Sale) bool {
	kind, _, _ := strings.Cut(sale.Ledger, ":")
	missed := f.unsent.Load()
	return !settle.Outdated(sale) && f.made.Load() && strings.HasPrefix(f.loader.Name(), kind+":") && missed > 0 &&
		time.Since(time.Unix(0, missed)) > 2*settle.SilentAfter
}

// leave deals with a sale that another ledger decides about. If that one was lost as a
// whole, and this one has taken its place, no other server has it any more.
func (f *follower) leave(ctx context.Context, view *admission.View) (changed bool, err error) {
	if view.Reading.Fence != "" { // so what waits in its journal may be stored
		f.compared(view.Sale.ID, false)
	}
	if !f.mayTake(&view.Sale) {
		return false, nil
	}
	taken, err := f.store.TakeSale(ctx, view.Sale.ID, f.node, settle.SilentAfter,
		port.FenceLost+": no server has its ledger any more: "+view.Sale.Ledger)
	if _, lives := errors.AsType[*sluice.StateError](err); lives {
		return false, nil
	}
	return taken, err
}
