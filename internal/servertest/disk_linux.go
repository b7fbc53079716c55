package servertest

import (
	"syscall"
	"testing"
)

// Disk returns a folder on a disk of its own, of so many bytes ("16m"). It needs
// the right to mount one: the word for it in SLUICE_TEST_REQUIRE is mount.
func Disk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		Unavailable(t, "mount", err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
