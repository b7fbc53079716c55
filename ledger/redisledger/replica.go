package redisledger

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// replica reads sales from a replica of a ledger's Redis. Its answers are of some
// moment of the past, so it decides nothing and finds no loss: it is for those
// who look on (ADR 9). It is safe for concurrent use.
type replica struct {
	option rueidis.ClientOption
	opts   Options

	mu     sync.Mutex
	ledger *Ledger // nil until it has been reached
	closed bool
}

// newReplica reads the address of a replica. A URL as for Open: redis://
// names the replica itself; with redis+sentinel:// it is one that the sentinels
// name, with redis+cluster:// each shard's (or its primary, if it has none).
// Nothing is connected before the first Read. Options.Node is not needed.
func newReplica(url string, opts Options) (*replica, error) {
	option, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisledger: replica: %w", err)
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, fmt.Errorf("redisledger: replica: %w", err)
	}
	option.ReplicaOnly = !option.ForceSingleClient
	return &replica{option: option, opts: opts}, nil
}

// Read returns a reading of each sale, in order, as the replica has it; Now is
// the replica's clock. A sale that has not reached it has Loaded false. It returns
// the errors of port.Reader.
func (r *replica) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	if len(sales) == 0 {
		return nil, nil
	}
	l, err := r.connected(ctx)
	if err != nil {
		return nil, err
	}
	readings, _, err := l.readMany(ctx, sales, func(int, *port.Reading, int64) string { return "" })
	if err != nil {
		return readings, fmt.Errorf("redisledger: read from a replica: %w", err)
	}
	return readings, nil
}

// connected returns the connection, made now if there is none yet: a replica
// that is down keeps no server from starting.
func (r *replica) connected(ctx context.Context) (*Ledger, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, sluice.ErrClosed
	}
	if r.ledger == nil {
		l, err := connect(ctx, r.option, r.opts, true)
		if err != nil {
			return nil, err
		}
		r.ledger = l
	}
	return r.ledger, nil
}

// Close ends the connections. It is idempotent.
func (r *replica) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.ledger == nil {
		return nil
	}
	return r.ledger.Close()
}
