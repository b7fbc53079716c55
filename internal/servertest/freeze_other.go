//go:build !unix

package servertest

// Freeze and Thaw need signals that this system does not have: a test that
// freezes a server fails here.
func (s *RedisServer) Freeze() { panic("servertest: this system cannot freeze a process") }

// Thaw ends Freeze.
func (s *RedisServer) Thaw() { s.Freeze() }
