//go:build !unix

package servertest

import "errors"

var errNoFreeze = errors.New("servertest: this system cannot freeze a process")

// Freeze fails: this system lacks the signals.
func Freeze(int) error { return errNoFreeze }

// Thaw fails likewise.
func Thaw(int) error { return errNoFreeze }
