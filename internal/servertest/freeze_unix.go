//go:build unix

package servertest

import "syscall"

// Freeze stops a process without ending it: it keeps its connections and
// answers nothing, until Thaw.
func Freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

// Thaw ends Freeze.
func Thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
