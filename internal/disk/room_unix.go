//go:build linux || darwin

package disk

import (
	"path/filepath"
	"syscall"
)

// left returns how many bytes of the disk that a file is on this user may still
// write; false if the disk does not say.
func left(path string) (int64, bool) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &fs); err != nil || fs.Blocks == 0 {
		return 0, false
	}
	return int64(fs.Bavail) * int64(fs.Bsize), true //nolint:unconvert // of other types elsewhere
}
