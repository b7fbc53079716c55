package engine_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
)

// smallDisk is a folder on a disk of its own, of so many bytes.
func smallDisk(t *testing.T, size string) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("a disk of the test's own needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// The disk of the embedded ledger is full: claims hear that nothing was decided,
// the server is not ready, and its log says why. When there is room again, the
// same claims are accepted, and what was accepted before has stayed.
func TestFullDisk(t *testing.T) {
	dir, log := smallDisk(t, "16m"), &logged{}
	b := openBranch(t, engine.Config{DataDir: dir, Node: "one", Log: log.logger()})
	sell(t, []*branch{b}, prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{}))
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	fill := func() {
		for block := make([]byte, 1<<20); len(block) > 0; {
			if _, err := filler.Write(block); errors.Is(err, syscall.ENOSPC) {
				block = block[:len(block)/2]
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	orders, refused := map[string]any{}, ""
	until(t, "a claim to be refused", func() bool { // there may be room in the files
		fill()
		buyer := fmt.Sprint("buyer-", len(orders))
		status, answer := b.claim("phones", buyer, "")
		if status == http.StatusAccepted {
			orders[buyer] = answer["order_id"]
			return false
		}
		refused = buyer
		return status == http.StatusServiceUnavailable &&
			answer["detail"] == "the ledger refuses to write; this request decided nothing"
	})
	fill()
	for range 3 {
		if status, answer := b.claim("phones", refused, ""); status != http.StatusServiceUnavailable ||
			answer["code"] != "unavailable" {
			t.Errorf("again: %d %v", status, answer)
		}
	}
	if _, err := b.client.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "the ledger refuses to write") {
		t.Errorf("ready: %v", err)
	}
	if lines := log.lines("level=WARN", "claims cannot be decided", "full"); len(lines) != 1 {
		t.Errorf("the log says why %d times: %q", len(lines), lines)
	}

	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	filler.Close()
	until(t, "the same claim to be accepted", func() bool {
		status, answer := b.claim("phones", refused, "")
		orders[refused] = answer["order_id"]
		return status == http.StatusAccepted
	})
	until(t, "the server to be ready", func() bool {
		_, err := b.client.Ready(t.Context())
		return err == nil
	})
	for buyer, order := range orders {
		if status, answer := b.claim("phones", buyer, ""); status != http.StatusAccepted || answer["order_id"] != order {
			t.Errorf("the claim of %s again: %d %v, want order %v", buyer, status, answer, order)
		}
	}
	until(t, "every order to be stored", func() bool {
		report, err := b.engine.Audit(t.Context(), "phones")
		if err == nil && !report.OK {
			t.Fatalf("the audit: %+v", report)
		}
		sale, storeErr := b.client.AdminSale(t.Context(), "phones")
		return err == nil && storeErr == nil && sale.StoredTaken == int64(len(orders))
	})
}
