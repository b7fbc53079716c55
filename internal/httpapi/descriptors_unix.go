//go:build unix

package httpapi

import "syscall"

// descriptors is how many files and connections the system lets this process
// have open, 0 if it does not say.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30)) //nolint:unconvert // signed on some systems
}
