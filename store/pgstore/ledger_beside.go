package pgstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// beside is what a ledger does beside its callers.
type beside struct {
	swept, looked atomic.Int64 // when it is due again, in Unix nanoseconds
	mu            sync.Mutex   // guards closed against what begins
	closed        bool
	running       sync.WaitGroup
}

// every calls do, unless it did so a short time ago.
func (b *beside) every(period time.Duration, due *atomic.Int64, do func(now time.Time)) {
	now, next := time.Now(), due.Load()
	if now.UnixNano() < next || !due.CompareAndSwap(next, now.Add(period).UnixNano()) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(func() { do(now) })
	}
}

// close waits for what runs; nothing begins any more.
func (b *beside) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// hungAfter is how long a transaction may wait for its server while it locks what others of
// the sale need. It is what PostgreSQL's own timeout of idle transactions allows, which does not
// run in the midst of several statements, or of a message, of which the rest does not come:
// a server that is frozen or cut off there would stop its sale on every server.
const hungAfter = "3s"

// freeSales ends transactions of servers, this one too, that hang and lock a sale's row, or count its tries.
func (l *ledger) freeSales() {
	l.beside.every(time.Second, &l.beside.looked, func(time.Time) {
		_, _ = l.exec(context.Background(), endHung)
	})
}

const endHung = `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
	WHERE a.datname = current_database() AND a.usename = current_user
		AND a.application_name = current_setting('application_name')
		AND a.wait_event = 'ClientRead' AND a.xact_start IS NOT NULL
		AND a.state_change < clock_timestamp() - interval '` + hungAfter + `'
		AND EXISTS (SELECT FROM pg_locks k WHERE k.pid = a.pid AND (k.locktype = 'advisory'
			OR k.relation = 'sales'::regclass AND k.mode <> 'AccessShareLock'))`
