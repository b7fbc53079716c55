package sqlitestore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// purgePath names the store in which the child of TestPurgeKilled deletes orders.
const purgePath = "SLUICE_TEST_PURGE"

func TestPurgeChild(t *testing.T) {
	path := os.Getenv(purgePath)
	if path == "" {
		t.Skip("only for the child of another test")
	}
	s := openStore(t, path)
	must.Get(s.PurgeOlder(t.Context(), time.Hour))(t)
}

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), path, Options{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A process that deletes orders is killed in the middle, and again: at every moment the
// sums and the orders that are left are all orders, and in the end the sums are.
func TestPurgeKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("other processes do the work")
	}
	const many = 6000
	path := filepath.Join(t.TempDir(), "store.db")
	s := openStore(t, path)
	long := time.Now().Add(-3 * time.Hour).Truncate(time.Millisecond)
	for _, id := range []sluice.SaleID{"phones", "radios"} {
		sale := sluice.NewSale(many, sluice.Unlimited)
		sale.ID, sale.SKU, sale.Title, sale.Price = id, "sku", "title", sluice.Money{Amount: 100, Currency: "CNY"}
		sale.OpensAt, sale.ClosesAt = long, long.Add(time.Hour)
		must.Get(s.CreateSale(t.Context(), sale))(t)
		must.Get(s.BeginLoad(t.Context(), id, 0))(t)
		must.Succeed(t, s.ConfirmLoad(t.Context(), id, 1))
	}
	sell := func(id sluice.SaleID, n int) {
		e := port.Entry{ID: "1-1", Sale: id, Epoch: 1, Node: "one", Terms: 1, At: long, FirstSeq: 1}
		for i := range n {
			e.Claims = append(e.Claims, sluice.Claim{
				Buyer: sluice.BuyerID(fmt.Sprint("buyer-", i)), Key: "attempt-1", Quantity: 1,
				Order: id.Order(fmt.Sprintf("%032x", i)),
			})
		}
		must.Get(s.Insert(t.Context(), id, []port.Entry{e}))(t)
	}
	do := func(statement string) {
		t.Helper()
		must.Get(s.write.ExecContext(t.Context(), statement))(t)
	}
	sell("phones", many)
	do("UPDATE orders SET status = 'paid', stored_at = stored_at - 7200000")
	do("UPDATE sale_events SET created_at = created_at - 7200000")
	if archived, err := s.Archive(t.Context(), "phones"); err != nil || !archived {
		t.Fatal(archived, err)
	}
	do("UPDATE sales SET archived_at = archived_at - 7200000 WHERE id = 'phones'")
	do("UPDATE sale_events SET created_at = created_at - 7200000 WHERE type = 'sale.archived'")
	for n := 1; n > 0; {
		var err error
		if n, err = s.NumberEvents(t.Context(), 10_000); err != nil {
			t.Fatal(err)
		}
	}
	sell("radios", 1)
	for n := 1; n > 0; {
		var err error
		if n, err = s.NumberEvents(t.Context(), 10_000); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (left, sums int64, ended bool) {
		must.Succeed(t, s.Snapshot(t.Context(), "phones", func(n port.Snapshot) error {
			left, sums = 0, 0
			if r := n.Sale().Remains; r != nil {
				sums, ended = r.Live(), !r.At.IsZero()
			}
			return n.Orders(func(sluice.Order) bool { left++; return true })
		}))
		if left+sums != many {
			t.Errorf("%d orders are left, and %d in the sums: want %d in all", left, sums, many)
		}
		return left, sums, ended
	}
	inTheMiddle := 0
	for range 3 {
		_, before, _ := count()
		var said bytes.Buffer
		child := exec.Command(os.Args[0], "-test.run=^TestPurgeChild$")
		child.Env, child.Stdout = append(os.Environ(), purgePath+"="+path), &said
		must.Succeed(t, child.Start())
		deadline := time.Now().Add(time.Minute)
		for _, sums, ended := count(); sums == before && !ended; _, sums, ended = count() {
			if time.Now().After(deadline) {
				t.Errorf("a child deletes nothing: %s", &said)
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		if left, _, _ := count(); left > 0 && left < many {
			inTheMiddle++
		}
	}
	if inTheMiddle == 0 {
		t.Error("no child was killed in the middle")
	}
	must.Get(s.PurgeOlder(t.Context(), time.Hour))(t)
	if left, sums, ended := count(); left != 0 || sums != many || !ended {
		t.Errorf("%d orders are left, %d in the sums, ended %v", left, sums, ended)
	}
}
