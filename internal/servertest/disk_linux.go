package servertest

import (
	"os"
	"syscall"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// Disk returns a folder on a disk of its own, of so many bytes ("16m"). It needs
// the right to mount one: the word for it in SLUICE_TEST_REQUIRE is mount.
func Disk(t testing.TB, size string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-disk-") // not t.TempDir, which is closed to the users of databases
	must.Succeed(t, err)
	t.Cleanup(func() { os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0711,size="+size); err != nil {
		Unavailable(t, "mount", err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
