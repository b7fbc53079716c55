package pgstore_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/pgstore"
)

// Behind PgBouncer the store does all that it does without: it notices that its
// statements may run on any connection, and that settings of a session are not
// its own.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	process := servertest.StartPostgres(t)
	via := servertest.PgBouncer(t, process)
	admin, databases := raw(t, process.URL()), 0
	through, names := *server, map[string]string{} // by URL
	var mu sync.Mutex
	through.Empty = func(t testing.TB) string {
		mu.Lock()
		defer mu.Unlock()
		databases++
		name := fmt.Sprintf("test_%d", databases)
		must.Get(admin.ExecContext(t.Context(), "CREATE DATABASE "+name))(t)
		u := must.Get(url.Parse(process.URL()))(t)
		u.Path = name
		names[via(u.String())] = u.String()
		return via(u.String())
	}
	direct := func(via string) string {
		mu.Lock()
		defer mu.Unlock()
		return names[via]
	}
	through.OpenAhead = func(t testing.TB, url string, by time.Duration) (port.Store, error) {
		return server.OpenAhead(t, direct(url), by) // a pooler does not pass on what the clock is set by
	}
	through.Raw = func(t testing.TB, url string) *sql.DB { return raw(t, direct(url)) }

	if servertest.IsNightly() {
		t.Run("Conformance", func(t *testing.T) { storetest.Databases(through.Databases).RunAlone(t) })
		t.Run("Locks", func(t *testing.T) { through.Locks(t) })
	}
	t.Run("Ledger", func(t *testing.T) { everyStatement(t, through.Empty(t)) })

	// A program that only reads leaves no connection behind that refuses to write.
	url := through.Empty(t)
	s, err := pgstore.Open(t.Context(), url, pgstore.Options{})
	s = storetest.Kept(t, s, err)
	storetest.Load(t, s)
	for n := 1; n <= 20; n++ {
		reader, err := pgstore.OpenReadOnly(t.Context(), url)
		reader = storetest.Kept(t, reader, err)
		must.Succeed(t, reader.Ping(t.Context()))
		if got := storetest.Batches(t, reader); got != n-1 {
			t.Errorf("%d batches read, want %d", got, n-1)
		}
		storetest.InsertBatch(t, s, storetest.Batch(n))
	}
}
