package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/pgstore"
	"github.com/sluicehq/sluice/store/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, database) }

func TestSoak(t *testing.T) { storetest.Soak(t, database) }

func database(t *testing.T) storetest.Database {
	url := servertest.Postgres(t)
	return storetest.Database{
		Open:         func(t *testing.T) sluice.Store { return open(t, url) },
		OpenReadOnly: func(t *testing.T) sluice.Store { return openReadOnly(t, url) },
		Age:          func(t *testing.T, sale sluice.SaleID, by time.Duration) { age(t, url, sale, by) },
		Execute:      func(t *testing.T, statement string) { execute(t, url, statement) },
	}
}

func age(t testing.TB, url string, sale sluice.SaleID, by time.Duration) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `UPDATE orders SET stored_at = stored_at - $1::interval, expires_at = expires_at - $1::interval,
		keep_until = keep_until - $1::interval, updated_at = updated_at - $1::interval WHERE sale_id = $2`, by, sale)
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, url string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), url, pgstore.Options{})
	return kept(t, s, err)
}

func openReadOnly(t testing.TB, url string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.OpenReadOnly(t.Context(), url)
	return kept(t, s, err)
}

// kept closes the store when the test ends.
func kept(t testing.TB, s *pgstore.Store, err error) *pgstore.Store {
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
