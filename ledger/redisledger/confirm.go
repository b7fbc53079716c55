package redisledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// Confirmed is nil if as many replicas as Options.WaitReplicas asks for have what was
// just written beside the sale: so they would have its claims. The key that it writes expires.
func (l *Ledger) Confirmed(ctx context.Context, sale sluice.SaleID) (err error) {
	defer wrap(&err, "ask the replicas of sale=%s", sale)
	if l.opts.WaitReplicas <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout+l.opts.WaitTimeout)
	defer cancel()
	results := l.onOneConnection(ctx,
		l.client.B().Set().Key(l.keys.probe(sale)).Value("").PxMilliseconds(probeFor.Milliseconds()).Build(), l.wait())
	if err := results[0].Error(); err != nil {
		return l.explain(err)
	}
	return l.checkWait(results[1])
}

// probeFor is how long what Confirmed writes stays.
const probeFor = time.Second

// CheckReplicas returns nil unless a primary has fewer replicas connected than
// Options.WaitReplicas. It writes nothing, and so does not see replicas that lag; nodes
// that do not answer are left out.
func (l *Ledger) CheckReplicas(ctx context.Context) error {
	if l.opts.WaitReplicas <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	var lacking []error
	nodes := l.client.Nodes()
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		wait := nodes[addr].B().Wait().Numreplicas(int64(l.opts.WaitReplicas)).Timeout(1).Build()
		// A replica answers that it is none to be asked.
		if n, err := nodes[addr].Do(ctx, wait).AsInt64(); err == nil && n < int64(l.opts.WaitReplicas) {
			lacking = append(lacking, fmt.Errorf("%s has %d of %d replicas", addr, n, l.opts.WaitReplicas))
		}
	}
	return errors.Join(lacking...)
}
