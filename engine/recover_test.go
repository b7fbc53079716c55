package engine_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
)

// recover has a person recover a sale, which nothing else does.
func (s *shop) recover(sale sluice.SaleID) (did sluice.Recovery) {
	s.t.Helper()
	var would sluice.Recovery
	await(s.t, "the sale to be fenced for a person", func() (outdated bool) {
		var err error
		would, err = s.engine.Recover(s.t.Context(), sale, false)
		return err == nil && strings.HasPrefix(would.Why, port.FenceOlder)
	})
	time.Sleep(300 * time.Millisecond) // some rounds of the servers' jobs
	did, err := s.engine.Recover(s.t.Context(), sale, true)
	if err != nil || !did.Applied || did.Stored.Count != would.Stored.Count ||
		did.StoredEnded.Count != would.StoredEnded.Count || did.Ended.Count != would.Ended.Count {
		s.t.Fatalf("%+v was announced, and %+v done: %v", would, did, err)
	}
	return did
}

// ask asks as the merchant, and returns the status and the body.
func (s *shop) ask(method, path, body string) (int, string) {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer admin-key-of-the-shop")
	answer := httptest.NewRecorder()
	s.engine.Handler().ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

// status is that of an order.
func (s *shop) status(order sluice.OrderID) string {
	_, body := s.ask(http.MethodGet, "/v1/admin/orders/"+string(order), "")
	return field(body, "status")
}

// A backup of the store is restored beside a ledger that went on. The sale waits for a person;
// meanwhile no order expires. Afterwards every buyer has the order that was promised, also of
// those that had ended; nothing is sold twice; and the shop can send its payments again.
func TestAStoreIsRestored(t *testing.T) {
	t.Parallel()
	for name, ledger := range map[string]func() string{
		"embedded": func() string { return "" },
		"redis":    func() string { return servertest.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			base, log := t.TempDir(), &logged{}
			dir, old, url := filepath.Join(base, "data"), filepath.Join(base, "old-store.db"), ledger()
			s := openShopWith(t, dir, url, log)
			sale := formatSale(restoreSale)
			sale.Total, sale.PaymentWindow, sale.PaymentGrace = 4, 5*time.Second, 0
			must.Get(s.engine.Control().Create(t.Context(), sale))(t)
			promised := map[int]sluice.OrderID{}
			buy := func(buyers ...int) {
				t.Helper()
				for _, buyer := range buyers {
					await(t, "the unit", func() bool { // which may be on its way back
						order, code := s.claim(buyer)
						promised[buyer] = order
						return code == "accepted"
					})
				}
				await(t, "the orders", func() bool { return s.status(promised[buyers[len(buyers)-1]]) == "pending" })
			}
			pay := func(buyer int) {
				t.Helper()
				path := "/v1/admin/orders/" + string(promised[buyer])
				if code, body := s.ask(http.MethodPost, path+"/pay", `{"payment_id":"pay-`+string(promised[buyer])+`"}`); code !=
					http.StatusOK || field(body, "status") != "paid" {
					t.Errorf("the payment of buyer %d: %d %s", buyer, code, body)
				}
			}
			buy(1, 2, 3)
			pay(1)
			copyDB(t, filepath.Join(dir, "store.db"), old)
			pay(2)
			s.cancel(promised[3])
			buy(4, 5)
			s.cancel(promised[5])
			buy(6)
			pay(4)
			await(t, "all to be given back", func() bool {
				report, err := s.engine.Audit(t.Context(), restoreSale)
				return err == nil && report.OK && report.Figures.Ledger.LiveClaims == 4
			})
			s.close()
			for _, file := range []string{"store.db", "store.db-wal", "store.db-shm"} {
				_ = os.Remove(filepath.Join(dir, file)) // not all are there
			}
			copyDB(t, old, filepath.Join(dir, "store.db"))
			time.Sleep(sale.PaymentWindow) // all that is pending in the copy is due

			s = openShopWith(t, dir, url, log)
			time.Sleep(time.Second)
			if status := s.status(promised[2]); status != "pending" {
				t.Errorf("the order that was paid is %s before the sale is recovered", status)
			}
			// The store has forgotten that the order of buyer 3 had ended, and its unit is another's: a payment
			// cannot be judged before the sale is recovered.
			code, body := s.ask(http.MethodPost, "/v1/admin/orders/"+string(promised[3])+"/pay", `{"payment_id":"late"}`)
			if code != http.StatusServiceUnavailable || field(body, "code") != "unavailable" ||
				!strings.Contains(body, "sluice recover") {
				t.Errorf("a payment before the sale is recovered: %d %s", code, body)
			}
			if code, body := s.ask(http.MethodGet, "/readyz", ""); code != http.StatusOK ||
				!strings.Contains(body, `"recover":["phone"]`) {
				t.Errorf("/readyz: %d %s", code, body)
			}
			did := s.recover(restoreSale)
			if did.Stored.Count != 2 || did.StoredEnded.Count != 1 || did.Ended.Count != 1 ||
				len(did.Payments) != 3 || did.Payments[0].Count != 0 || did.Payments[1].Count != 3 ||
				did.Payments[2].Count != 2 {
				t.Errorf("recovered %+v", did)
			}
			if n := len(log.lines("waits for a person")); n != 1 {
				t.Errorf("the log says %d times that a person is waited for", n)
			}
			await(t, "an audit that adds up", func() bool {
				report, err := s.engine.Audit(t.Context(), restoreSale)
				return err == nil && report.OK && report.Figures.Ledger.Fence == "" && report.Figures.Store.Taken == 4
			})
			time.Sleep(time.Second)
			for buyer, want := range map[int]string{
				1: "paid", 2: "pending", 3: "cancelled", 4: "pending", 5: "cancelled", 6: "pending",
			} {
				if got := s.status(promised[buyer]); got != want {
					t.Errorf("the order of buyer %d is %s, want %s", buyer, got, want)
				}
				if again, code := s.claim(buyer); again != promised[buyer] {
					t.Errorf("buyer %d was promised %s and gets %s %s (I4)", buyer, promised[buyer], again, code)
				}
			}
			pay(2)
			pay(4)
			if order, code := s.claim(7); code != "sold_out" {
				t.Errorf("a fifth unit of four: %s %s (I1)", order, code)
			}
		})
	}
}
