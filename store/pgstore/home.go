package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// home is the connection of a pool that a rush uses. Each process of PostgreSQL has caches of its
// own, and a pool hands out the connection that was given back last, so a rush would go through
// all of them. Who finds the home taken gets another connection.
type home struct {
	pool *pgxpool.Pool

	mu   sync.Mutex // guards all below
	conn *pgxpool.Conn
	free bool
	idle *time.Timer // gives it back to the pool
	over bool        // nothing is kept
}

// leftAfter is how long the home is kept from the pool while it is not used.
const leftAfter = time.Second

func newHome(pool *pgxpool.Pool) *home {
	h := &home{pool: pool, over: pool.Config().MaxConns <= changesOnly}
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
		h.conn = conn
	}
	switch {
	case h.conn != conn:
		conn.Release()
	case h.over || conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() != 'I':
		h.conn = nil
		conn.Release()
	default:
		h.free = true
		h.idle.Reset(leftAfter)
	}
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

// close is for the end of the pool, which waits for all connections.
func (h *home) close() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.leave()
}
