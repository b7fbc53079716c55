package mysqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/mysqlstore"
	"github.com/sluicehq/sluice/store/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, database) }

func TestSoak(t *testing.T) { storetest.Soak(t, database) }

func database(t *testing.T) storetest.Database {
	url := servertest.MySQL(t)
	raw := mysqlstore.OpenRaw(t, url)
	return storetest.Database{
		Open:         func(t *testing.T) sluice.Store { return open(t, url) },
		OpenReadOnly: func(t *testing.T) sluice.Store { return openReadOnly(t, url) },
		Age:          func(t *testing.T, sale sluice.SaleID, by time.Duration) { age(t, raw, sale, by) },
		Execute:      func(t *testing.T, statement string) { execute(t, raw, statement) },
	}
}

func age(t testing.TB, db *sql.DB, sale sluice.SaleID, by time.Duration) {
	t.Helper()
	const earlier = ` - INTERVAL ? * 1000 MICROSECOND`
	ms := by.Milliseconds()
	execute(t, db, `UPDATE orders SET stored_at = stored_at`+earlier+`, expires_at = expires_at`+earlier+`,
		keep_until = keep_until`+earlier+`, updated_at = updated_at`+earlier+` WHERE sale_id = ?`, ms, ms, ms, ms, string(sale))
}

func open(t testing.TB, url string) *mysqlstore.Store {
	t.Helper()
	s, err := mysqlstore.Open(t.Context(), url, mysqlstore.Options{})
	return kept(t, s, err)
}

func openReadOnly(t testing.TB, url string) *mysqlstore.Store {
	t.Helper()
	s, err := mysqlstore.OpenReadOnly(t.Context(), url)
	return kept(t, s, err)
}

// kept closes the store when the test ends.
func kept(t testing.TB, s *mysqlstore.Store, err error) *mysqlstore.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
