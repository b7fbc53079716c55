package engine_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// filler takes all room of a disk that is left.
type filler struct {
	t    *testing.T
	file *os.File
}

func newFiller(t *testing.T, dir string) *filler {
	file := must.Get(os.Create(filepath.Join(dir, "filler")))(t)
	t.Cleanup(func() { file.Close() })
	return &filler{t, file}
}

func (f *filler) fill() {
	must.Get(f.file.Seek(0, io.SeekEnd))(f.t)
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.file.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			f.t.Fatal(err)
		}
	}
}

// leave takes all but so many bytes.
func (f *filler) leave(bytes int64) {
	f.fill()
	info, err := f.file.Stat()
	if err == nil {
		err = f.file.Truncate(info.Size() - bytes)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *filler) remove() {
	f.file.Close()
	must.Succeed(f.t, os.Remove(f.file.Name()))
}

// The disk of the store alone is full: claims are accepted, and wait in the
// journal; what needs the store hears why it fails. When there is room again, all
// become orders, each with the id that was promised.
func TestStoreOnAFullDisk(t *testing.T) {
	storeOnAFullDisk(t, servertest.Disk(t, "16m"), "")
}

func TestPostgresOnAFullDisk(t *testing.T) {
	dir := servertest.Disk(t, "96m")
	storeOnAFullDisk(t, dir, onDisk(t, dir, func() string { return servertest.StartPostgres(t).URL() }))
}

func TestMySQLOnAFullDisk(t *testing.T) {
	servertest.Nightly(t)
	dir := servertest.Disk(t, "224m")
	storeOnAFullDisk(t, dir, onDisk(t, dir, func() string {
		return servertest.StartMySQL(t, "--innodb-log-file-size=4M").URL()
	}))
}

// onDisk starts a server whose folder is on the disk.
func onDisk(t *testing.T, dir string, start func() string) string {
	t.Helper()
	before := os.Getenv("TMPDIR")
	t.Setenv("TMPDIR", dir)
	defer os.Setenv("TMPDIR", before)
	return start()
}

func storeOnAFullDisk(t *testing.T, dir, store string) {
	t.Helper()
	log := &logged{}
	cfg := engine.Config{
		DataDir: dir, Ledger: servertest.StartRedis(t).URL(), Store: store, Node: "one", Log: log.logger(),
	}
	if store != "" {
		cfg.DataDir = t.TempDir()
	}
	b := openBranch(t, cfg)
	sale := prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{})
	sale.Total = 10_000
	sell(t, []*branch{b}, sale)
	orders := map[string]sluice.OrderID{}
	accept := func(buyer string) {
		t.Helper()
		status, answer := b.claim("phones", buyer, "")
		order := sluice.OrderID(fmt.Sprint(answer["order_id"]))
		if before := orders[buyer]; status != http.StatusAccepted || before != "" && order != before {
			t.Fatalf("%s: %d %v, before %s", buyer, status, answer, before)
		}
		orders[buyer] = order
	}
	stored := func() bool {
		sale, err := b.client.AdminSale(t.Context(), "phones")
		return err == nil && sale.Backlog == 0 && sale.StoredTaken == int64(len(orders))
	}
	accept("ann")
	until(t, "the first order to be stored", stored)

	filler := newFiller(t, dir)
	until(t, "the store to be full", func() bool { // there may be room in the files
		filler.fill()
		accept(fmt.Sprint("buyer-", len(orders)))
		return len(log.lines("level=WARN", "the store's disk is full", "journal")) > 0
	})
	for range 10 {
		accept(fmt.Sprint("buyer-", len(orders)))
	}
	until(t, "the server to be ready, and to say that the store is not", func() bool {
		ready, err := b.client.Ready(t.Context())
		return err == nil && ready.StoreState != "ok"
	})
	// A database may have room in its files for a payment.
	if _, err := b.client.PayOrder(t.Context(), orders["ann"], "payment-1"); client.CodeOf(err) != "unavailable" &&
		(err != nil || store == "") {
		t.Errorf("a payment: %v", err)
	}
	if sale, err := b.client.AdminSale(t.Context(), "phones"); err != nil || sale.Taken != int64(len(orders)) ||
		sale.Backlog == 0 {
		t.Errorf("%+v, %v; want %d units taken, some of them in the journal", sale, err, len(orders))
	}

	filler.remove()
	until(t, "every order to be stored", stored)
	for buyer := range orders {
		accept(buyer)
	}
	if order, err := b.client.PayOrder(t.Context(), orders["ann"], "payment-1"); err != nil ||
		order.Status != sluice.Paid {
		t.Errorf("the payment again: %+v, %v", order, err)
	}
	if report, err := b.engine.Audit(t.Context(), "phones"); err != nil || !report.OK {
		t.Errorf("the audit: %+v, %v", report, err)
	}
}

// A server that starts on a full disk is not ready, and says why, before any claim
// has failed; it is when there is room again, without a claim.
func TestStartOnAFullDisk(t *testing.T) {
	dir, log := servertest.Disk(t, "16m"), &logged{}
	cfg := engine.Config{DataDir: dir, Node: "one", Log: log.logger()}
	b := openBranch(t, cfg)
	sell(t, []*branch{b}, prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{}))
	if status, answer := b.claim("phones", "ann", ""); status != http.StatusAccepted {
		t.Fatalf("%d %v", status, answer)
	}
	b.close()
	filler := newFiller(t, dir)
	filler.fill()
	cfg.AdminKey, cfg.BuyerSecret = "admin-key-of-the-shop", "buyer-secret-of-the-fleet"
	if _, err := engine.Open(t.Context(), cfg); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("without any room: %v; want the system's word for it", err)
	}
	filler.leave(96 << 10) // enough for SQLite to open the files
	b = openBranch(t, cfg)
	filler.fill()
	until(t, "the server to be not ready", func() bool {
		filler.fill()
		_, err := b.client.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "the ledger refuses to write")
	})
	if len(log.lines("level=WARN", "not ready", "full")) == 0 {
		t.Error("the log does not say why")
	}
	filler.remove()
	until(t, "the server to be ready", func() bool {
		_, err := b.client.Ready(t.Context())
		return err == nil
	})
	if status, answer := b.claim("phones", "bob", ""); status != http.StatusAccepted {
		t.Errorf("%d %v", status, answer)
	}
}

// A disk that fills up while nothing is sold is noticed without a claim: the ledger's by
// readiness, the store's by what readiness says of it; and so is the room that comes back.
func TestADiskFillsUpWhileIdle(t *testing.T) {
	dir, log := servertest.Disk(t, "16m"), &logged{}
	one := openBranch(t, engine.Config{DataDir: dir, Node: "one", Log: log.logger()})
	other := openBranch(t, engine.Config{
		DataDir: t.TempDir(), Ledger: servertest.StartRedis(t).URL(), Store: "sqlite:" + filepath.Join(dir, "other.db"),
		Node: "two",
	})
	sell(t, []*branch{one}, prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{}))
	ready := func(want string) {
		t.Helper()
		until(t, "readiness", func() bool {
			_, ledger := one.client.Ready(t.Context())
			store, err := other.client.Ready(t.Context())
			if err != nil {
				t.Errorf("the store's disk is no matter of readiness: %v", err)
			}
			return (ledger == nil) == (want == "ok") && strings.HasPrefix(store.StoreState, want)
		})
	}
	ready("ok")
	filler := newFiller(t, dir)
	filler.fill()
	ready("full")
	if len(log.lines("level=WARN", "not ready", "full but for")) == 0 {
		t.Error("the log does not say why")
	}
	filler.remove()
	ready("ok")
	if status, answer := one.claim("phones", "ann", ""); status != http.StatusAccepted {
		t.Errorf("%d %v", status, answer)
	}
}
