//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreBackgroundReads has reads from the terminal fail, and not stop the program, while it runs in
// the background of a shell.
func ignoreBackgroundReads() { signal.Ignore(syscall.SIGTTIN) }
