package engine

import (
	"context"
	"time"

	"github.com/sluicehq/sluice/ledger/redisledger"
)

// warnFor bounds what looking for warnings may add to a start.
const warnFor = time.Second

// warn says what works now and may be regretted later. It changes nothing and
// fails for nothing.
func (e *Engine) warn(ctx context.Context) {
	if _, own := sqlitePath(e.cfg.Store); own && isRedis(e.cfg.Ledger) {
		e.cfg.Log.Warn("this store is this server's own file: a second server needs --store postgres://… or mysql://…", "store", Redact(e.cfg.Store))
	}
	ledger, ok := e.ledger.(*redisledger.Ledger)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warnFor)
	defer cancel()
	risks, err := ledger.Risks(ctx)
	if err != nil {
		e.cfg.Log.Warn("cannot check whether the settings of Redis keep accepted claims", "error", err,
			"want", "allow CONFIG GET (ACL: +config|get), or make sure of appendonly yes, appendfsync always and maxmemory-policy noeviction")
	}
	for _, risk := range risks {
		e.cfg.Log.Warn("a setting of Redis can lose accepted claims", "setting", risk.Setting, "value", risk.Value, "risk", risk.Harm, "want", risk.Want)
	}
}
