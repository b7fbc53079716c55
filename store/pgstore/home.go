package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// home is the connection of a pool that a rush uses. Each process of PostgreSQL has caches of its
// own, and a pool hands out the connection that was given back last, so a rush would go through
// all of them. A caller that finds the home taken gets another connection.
type home struct {
	pool *pgxpool.Pool

	left time.Duration // after which the pool has it again, if it is not used

	mu    sync.Mutex // guards all below
	conn  *pgxpool.Conn
	since time.Time // it was the pool's
	free  bool
	idle  *time.Timer // gives it back to the pool
	over  bool        // nothing is kept
}

// The pool gets the home back: soon if it is not used, and after a while of use, to look whether
// it has lived too long.
const (
	leftAfter = time.Second
	usedFor   = time.Minute
)

func newHome(pool *pgxpool.Pool) *home {
	h := &home{pool: pool, left: leftAfter, over: pool.Config().MaxConns <= 2*changesOnly}
	h.idle = time.AfterFunc(time.Hour, h.leave)
	h.idle.Stop()
	return h
}

func (h *home) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	h.mu.Lock()
	free := h.free
	h.free = false
	conn := h.conn
	h.mu.Unlock()
	if free {
		return conn, nil
	}
	return h.pool.Acquire(ctx)
}

// release takes what acquire has returned. It closes the connection if a transaction is still open.
func (h *home) release(conn *pgxpool.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == nil {
		h.conn, h.since = conn, time.Now()
	}
	if h.conn != conn {
		conn.Release()
		return
	}
	pg, pool := conn.Conn().PgConn(), h.pool.Stat()
	if h.over || pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' || time.Since(h.since) > usedFor ||
		pool.AcquiredConns() == pool.MaxConns() { // others may wait for one
		h.conn = nil
		conn.Release()
		return
	}
	h.free = true
	h.idle.Reset(h.left)
}

// leave gives the home back to the pool, if it is not used.
func (h *home) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free {
		h.conn.Release()
		h.conn, h.free = nil, false
	}
}

// close is called before the pool closes, which waits for all connections.
func (h *home) close() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.leave()
}
