package sqlcore

import (
	"context"
	"sync/atomic"
)

// Readiness prepares a database when it is first reached, and once: the first
// use of a lazily opened store migrates. Ready is meant for Store.Ready.
type Readiness struct {
	prepare   func(context.Context) error
	done      atomic.Bool
	preparing chan struct{} // holds a token while somebody prepares
	why       atomic.Pointer[error]
}

// NewReadiness returns one that has prepared nothing yet. After an error of
// prepare the next use tries again.
func NewReadiness(prepare func(context.Context) error) *Readiness {
	return &Readiness{prepare: prepare, preparing: make(chan struct{}, 1)}
}

// Ready prepares, unless that is done. Callers that come meanwhile wait.
func (r *Readiness) Ready(ctx context.Context) error {
	if r.done.Load() {
		return nil
	}
	select {
	case r.preparing <- struct{}{}:
		defer func() { <-r.preparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.done.Load() {
		return nil
	}
	if err := r.prepare(ctx); err != nil {
		r.why.Store(&err)
		return err
	}
	r.done.Store(true)
	r.why.Store(nil)
	return nil
}

// NotReady says why the last attempt failed; nil before the first one, and once
// one has succeeded.
func (r *Readiness) NotReady() error {
	if why := r.why.Load(); why != nil {
		return *why
	}
	return nil
}
