package disk_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sluicehq/sluice/internal/disk"
)

func TestWriteAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"old", "new"} {
		if err := disk.Write(path, content); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := os.WriteFile(path+"-wal", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := disk.Private(path); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("Private changed the content: %q, %v", got, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o600) {
			t.Errorf("%s: %v, %v", entry.Name(), info.Mode(), err)
		}
	}
	missing := filepath.Join(t.TempDir(), "none", "file")
	if disk.Write(missing, "") == nil || disk.Private(missing) == nil || disk.SyncDir(filepath.Dir(missing)) == nil && runtime.GOOS != "windows" {
		t.Error("a folder that is missing is no error")
	}
}
