package mysqlstore_test

import (
	"testing"

	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

func BenchmarkInsert(b *testing.B) {
	s := open(b, servertest.MySQL(b))
	db := mysqlstore.RawDB(s)
	execute(b, db, "CREATE TABLE bare LIKE orders")
	storetest.BenchmarkInsert(b, s, &storetest.Bare{
		Arg: func(int) string { return "?" },
		Execute: func(query string, args []any) error {
			_, err := db.ExecContext(b.Context(), query, args...)
			return err
		},
	})
}

func BenchmarkEndings(b *testing.B) {
	url := servertest.MySQL(b)
	storetest.BenchmarkEndings(b, open(b, url), server.Age(b, url))
}
