package sqliteledger

import (
	"path/filepath"
	"testing"
)

// TestSettings: what makes a commit durable is really set, on the connection
// that commits, after a rebuild too.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for range 2 {
		f, err := openFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for pragma, want := range map[string]string{
			"journal_mode": "wal", "synchronous": "2", "wal_autocheckpoint": "4000", "busy_timeout": "10000",
		} {
			var got string
			if err := f.db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
			}
		}
		f.close()
	}
}
