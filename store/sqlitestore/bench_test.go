package sqlitestore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/storetest"
)

// Each batch has its fsync.
func BenchmarkInsert(b *testing.B) {
	storetest.BenchmarkInsert(b, open(b, filepath.Join(b.TempDir(), "store.db")), nil)
}

func BenchmarkEndings(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store.db")
	storetest.BenchmarkEndings(b, open(b, path), func(sale sluice.SaleID, by time.Duration) { age(b, path, sale, by) })
}
