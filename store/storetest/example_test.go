package storetest_test

import (
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/sqlitestore"
	"github.com/sluicehq/sluice/store/storetest"
)

// The test of a store of your own: how it is opened on fresh data, here SQLite's, and how
// the suite reaches the database behind its back. Every field of Database is needed.
func Example() {
	suite := storetest.Databases(func(*testing.T) func(*testing.T) storetest.Database {
		return func(t *testing.T) storetest.Database {
			path := filepath.Join(t.TempDir(), "store.db")
			return storetest.Database{
				Open: func(t *testing.T) sluice.Store {
					s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
					return storetest.Kept(t, s, err)
				},
			}
		}
	})
	_ = func(t *testing.T) { suite.Run(t) } // your TestConformance
}
