package sqlitestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// A full disk is busy, and is called what it is; until something can be written
// again the store says that it is not well.
func TestFullDisk(t *testing.T) {
	dir := servertest.Disk(t, "8m")
	s, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "store.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	for range 1000 { // there may be room in the files
		if err = s.Heartbeat(t.Context(), port.Server{Node: "a"}); err != nil {
			break
		}
	}
	full := "the store's disk is full"
	if !errors.Is(err, sluice.ErrStoreBusy) || !strings.Contains(err.Error(), full) {
		t.Errorf("a change: %v", err)
	}
	for range 3 {
		if err := s.Ping(t.Context()); !errors.Is(err, sluice.ErrStoreFull) || strings.Count(err.Error(), full) != 1 {
			t.Errorf("ping: %v", err)
		}
	}
	must.Succeed(t, os.Remove(filler))
	beat := func() error {
		return errors.Join(s.Heartbeat(t.Context(), port.Server{Node: "a"}), s.Ping(t.Context()))
	}
	if err := beat(); !errors.Is(err, sluice.ErrStoreFull) {
		t.Errorf("at once: %v; what is small may fit where orders do not", err)
	}
	for deadline := time.Now().Add(20 * time.Second); err != nil; time.Sleep(100 * time.Millisecond) {
		if err = beat(); err != nil && time.Now().After(deadline) {
			t.Fatalf("with room: %v", err)
		}
	}
	// A disk that is full while nothing is written.
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, sluice.ErrStoreFull) {
		t.Errorf("ping: %v", err)
	}
}
