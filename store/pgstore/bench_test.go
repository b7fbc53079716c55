package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/pgstore"
)

func BenchmarkInsert(b *testing.B) {
	url := servertest.Postgres(b)
	s := open(b, url)
	pool := must.Get(pgxpool.New(b.Context(), url))(b)
	defer pool.Close()
	must.Get(pool.Exec(b.Context(), "CREATE TABLE bare (LIKE orders INCLUDING ALL)"))(b)
	storetest.BenchmarkInsert(b, s, &storetest.Bare{
		Arg: func(n int) string { return fmt.Sprintf("$%d", n) },
		Execute: func(query string, args []any) error {
			_, err := pool.Exec(b.Context(), query, args...)
			return err
		},
	})
}

func BenchmarkEndings(b *testing.B) {
	url := servertest.Postgres(b)
	storetest.BenchmarkEndings(b, open(b, url), server.Age(b, url))
}

func open(b *testing.B, url string) *pgstore.Store {
	b.Helper()
	s, err := pgstore.Open(b.Context(), url, pgstore.Options{})
	return storetest.Kept(b, s, err)
}
