package engine_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// Every file of a data folder is its owner's alone, also in a folder that the
// operator made with the usual rights, and also those of an earlier version.
func TestDataFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists, not modes")
	}
	folder := filepath.Join(t.TempDir(), "data")
	must.Succeed(t, os.Mkdir(folder, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(folder, "buyer.secret"), []byte(strings.Repeat("s", 40)+"\n"), 0o644))
	open := func(warned bool) {
		t.Helper()
		var log bytes.Buffer
		e, err := engine.Open(t.Context(), engine.Config{DataDir: folder, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(folder) // while it runs: SQLite's own files are there
		if err != nil || len(entries) < 7 {
			t.Fatalf("%d files, %v", len(entries), err)
		}
		for _, entry := range entries {
			info := must.Get(entry.Info())(t)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v", entry.Name(), info.Mode())
			}
		}
		must.Succeed(t, e.Close(t.Context()))
		if strings.Contains(log.String(), "chmod 700") != warned {
			t.Errorf("warned should be %v: %s", warned, log.String())
		}
	}
	open(false)
	chmod := func(name string, mode fs.FileMode) {
		t.Helper()
		must.Succeed(t, os.Chmod(filepath.Join(folder, name), mode))
	}
	for _, name := range []string{"ledger.db", "store.db", "admin.key"} {
		chmod(name, 0o644)
	}
	chmod("", 0o775)
	open(true)
}
