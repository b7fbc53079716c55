package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
)

// durability looks whether the store's database keeps what it commits, also at a failover (ADR 18).
// A standby may be attached, and a setting changed, while servers run.
type durability struct {
	store port.Risky
	log   *slog.Logger
	last  atomic.Pointer[[]port.SettingRisk] // what the last look has found
}

// newDurability returns nil if the store is no server's.
func newDurability(store port.Store, log *slog.Logger) *durability {
	risky, ok := port.As[port.Risky](store)
	if !ok {
		return nil
	}
	return &durability{store: risky, log: log}
}

// now is what the last look has found.
func (d *durability) now() []port.SettingRisk {
	if last := d.last.Load(); last != nil {
		return *last
	}
	return nil
}

// look asks the database, and logs what the look before has not found.
func (d *durability) look(ctx context.Context) ([]port.SettingRisk, error) {
	ctx, cancel := context.WithTimeout(ctx, warnFor)
	defer cancel()
	risks, err := d.store.Risks(ctx)
	if err != nil {
		return nil, err
	}
	before := d.now()
	d.last.Store(&risks)
	for _, risk := range risks {
		if !slices.Contains(before, risk) {
			d.log.Warn("a setting of the database can lose orders and payments", "setting", risk.Setting, "value", risk.Value,
				"risk", risk.Harm, "want", risk.Want)
		}
	}
	return risks, nil
}

// lookEvery is how often a server looks.
const lookEvery = time.Minute

func (d *durability) run(ctx context.Context) {
	for range loop.Every(ctx, lookEvery) {
		if _, err := d.look(ctx); err != nil && ctx.Err() == nil {
			d.log.Debug("the settings of the database cannot be read", "error", err)
		}
	}
}
