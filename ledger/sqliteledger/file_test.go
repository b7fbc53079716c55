package sqliteledger

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/must"
)

// TestSettings: what makes a commit durable is really set, on the connection
// that commits, after a rebuild too.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for range 2 {
		f := must.Get(openFile(t.Context(), path))(t)
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

// A new ledger is durable under its name before it can be used: what it accepts
// would otherwise be gone with the file after a crash of the machine (I5).
func TestANewFileIsDurable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a folder cannot be flushed on Windows")
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	flush := disk.Flush
	defer func() { disk.Flush = flush }()
	flushed := false
	disk.Flush = func(f *os.File) error {
		_, missing := os.Stat(path)
		flushed = f.Name() == filepath.Dir(path) && missing == nil
		return flush(f)
	}
	f := must.Get(openFile(t.Context(), path))(t)
	f.close()
	if !flushed {
		t.Error("the folder of a new file is not flushed")
	}
	disk.Flush = func(*os.File) error { return errors.New("the disk is gone") }
	if f, err := openFile(t.Context(), filepath.Join(t.TempDir(), "ledger.db")); err == nil {
		f.close()
		t.Error("a file whose folder cannot be flushed is opened")
	}
}
