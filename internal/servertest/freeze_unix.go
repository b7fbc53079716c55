//go:build unix

package servertest

import "syscall"

// Freeze stops the server's process without ending it: it keeps its
// connections and answers nothing, until Thaw.
func (s *RedisServer) Freeze() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *RedisServer) Thaw() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
