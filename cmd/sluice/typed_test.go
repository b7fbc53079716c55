package main

import (
	"strings"
	"testing"
	"time"
)

// The example of a wrong time can be copied: it is not in the past.
func TestExampleOfATimeIsToCome(t *testing.T) {
	now := time.Date(2031, 12, 31, 23, 30, 0, 0, time.UTC)
	_, err := flagTime("opens-at", "soon", now, "now")
	if err == nil || err.Error() != `--opens-at "soon": want a time like 2032-01-01T23:00:00Z, +10m or now` {
		t.Fatal(err)
	}
	example, _, _ := strings.Cut(strings.SplitAfter(err.Error(), "like ")[1], ",")
	if at, err := flagTime("opens-at", example, now, "now"); err != nil || !at.Value.After(now) {
		t.Errorf("%v, %v", at, err)
	}
}
