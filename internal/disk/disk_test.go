package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/must"
)

func TestWriteAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"old", "new"} {
		must.Succeed(t, disk.Write(path, content))
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Fatalf("%q, %v", got, err)
		}
	}
	must.Succeed(t, os.WriteFile(path+"-wal", nil, 0o644))
	for range 2 {
		must.Succeed(t, disk.Private(path))
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
	if disk.Write(missing, "") == nil || disk.Private(missing) == nil || disk.SyncDir(filepath.Dir(missing)) == nil &&
		runtime.GOOS != "windows" {
		t.Error("a folder that is missing is no error")
	}
}

// A crash of the machine leaves the old content or the new: the content is
// durable before it gets the name, and the name before Write returns.
func TestWriteFlushesContentThenFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a folder cannot be flushed on Windows")
	}
	path := filepath.Join(t.TempDir(), "file")
	flush := disk.Flush
	defer func() { disk.Flush = flush }()
	var flushed []string
	disk.Flush = func(f *os.File) error {
		named, _ := os.ReadFile(path)
		if f.Name() == filepath.Dir(path) {
			flushed = append(flushed, "folder with "+string(named))
		} else {
			content, _ := os.ReadFile(f.Name())
			flushed = append(flushed, string(content)+" beside "+string(named))
		}
		return flush(f)
	}
	for _, content := range []string{"old", "new"} {
		must.Succeed(t, disk.Write(path, content))
	}
	if want := []string{"old beside ", "folder with old", "new beside old", "folder with new"}; !slices.Equal(flushed,
		want) {
		t.Errorf("flushed %q, want %q", flushed, want)
	}
	disk.Flush = func(*os.File) error { return errors.New("the disk is gone") }
	if disk.Write(path, "lost") == nil || disk.SyncDir(filepath.Dir(path)) == nil {
		t.Error("what could not be flushed is reported as durable")
	}
}
