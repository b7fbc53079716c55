package pgstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// What a rush does goes to one connection, whatever others use meanwhile; it is the pool's again
// soon after, at once if it is broken or the pool is closed, and always in a pool of few.
func TestHome(t *testing.T) {
	t.Parallel()
	url := servertest.Postgres(t)
	open := func(conns int32) (*pgxpool.Pool, *home) {
		config := must.Get(parse(url))(t)
		config.MaxConns = conns
		pool := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
		return pool, newHome(pool)
	}
	pool, h := open(2*changesOnly + 1)
	h.left = time.Hour // this machine may be slow
	take := func(h *home) *pgxpool.Conn {
		conn := must.Get(h.acquire(t.Context()))(t)
		return conn
	}
	pid := func(conn *pgxpool.Conn) uint32 { return conn.Conn().PgConn().PID() }
	first := take(h)
	one, other := pid(first), take(h)
	if pid(other) == one {
		t.Fatal("the home was handed out twice")
	}
	h.release(first)
	h.release(other) // the pool's newest
	for range 3 {
		conn := take(h)
		if pid(conn) != one {
			t.Errorf("connection %d, want the home %d", pid(conn), one)
		}
		h.release(conn)
	}
	if used := pool.Stat().AcquiredConns(); used != 1 {
		t.Errorf("%d connections are kept, want the home", used)
	}
	all := []*pgxpool.Conn{take(h)}
	for range 2 * changesOnly {
		conn := must.Get(pool.Acquire(t.Context()))(t)
		all = append(all, conn)
	}
	if h.release(all[0]); pool.Stat().AcquiredConns() != 2*changesOnly {
		t.Error("the home is kept, although all other connections are in use")
	}
	for _, conn := range all[1:] {
		conn.Release()
	}
	h.left = time.Millisecond
	h.release(take(h))
	for deadline := time.Now().Add(10 * time.Second); pool.Stat().AcquiredConns() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the home is kept, although nothing uses it")
		}
	}
	for what, spoil := range map[string]func(*pgxpool.Conn) error{
		"a connection that is closed":  func(c *pgxpool.Conn) error { return c.Conn().Close(t.Context()) },
		"one with an open transaction": func(c *pgxpool.Conn) error { _, err := c.Exec(t.Context(), "BEGIN"); return err },
	} {
		conn := take(h)
		bad := pid(conn)
		must.Succeed(t, spoil(conn))
		h.release(conn)
		next := take(h)
		if pid(next) == bad {
			t.Errorf("%s is kept", what)
		}
		h.release(next)
	}
	conn := take(h)
	h.release(conn)
	h.close()
	h.release(take(h)) // of a call that was under way
	pool.Close()       // waits for what is kept

	few, none := open(2 * changesOnly)
	defer few.Close()
	if none.release(take(none)); few.Stat().AcquiredConns() > 0 {
		t.Error("a small pool has no connection to keep")
	}
}
