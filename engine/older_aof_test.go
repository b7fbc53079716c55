package engine_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// aofFolder is where Redis 7 keeps its append-only file; older ones have one
// file.
const (
	aofFolder = "appendonlydir"
	aofFile   = "appendonly.aof"
)

// keepAOF copies what Redis has on its disk now, with the server stopped for
// that moment, so that the copy ends between two commands.
func (f *fleet) keepAOF(to string) {
	f.redis.Freeze()
	defer f.redis.Thaw()
	f.swapAOF(f.redis.Dir(), to)
}

// swapAOF puts the append-only file of one folder into another.
func (f *fleet) swapAOF(from, to string) {
	for _, name := range []string{aofFolder, aofFile} {
		if err := os.RemoveAll(filepath.Join(to, name)); err != nil {
			f.t.Error(err)
		}
	}
	var err error
	if _, missing := os.Stat(filepath.Join(from, aofFolder)); missing == nil {
		err = os.CopyFS(filepath.Join(to, aofFolder), os.DirFS(filepath.Join(from, aofFolder)))
	} else {
		var content []byte
		if content, err = os.ReadFile(filepath.Join(from, aofFile)); err == nil {
			err = os.WriteFile(filepath.Join(to, aofFile), content, 0o600)
		}
	}
	if err != nil {
		f.t.Error(err)
	}
}

// cancel ends an order that may not be stored yet, on one server.
func (f *fleet) cancel(server int, order string) {
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		request := httptest.NewRequest(http.MethodPost, "/v1/admin/orders/"+order+"/cancel", nil)
		request.Header.Set("Authorization", "Bearer admin-key-of-the-fleet")
		answer := httptest.NewRecorder()
		f.engines[server].Handler().ServeHTTP(answer, request)
		if answer.Code == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			f.t.Errorf("cancel %s: %d %s", order, answer.Code, answer.Body.String())
			return
		}
	}
}

// storedOrders reads every order of the fleet's sale.
func (f *fleet) storedOrders() map[sluice.OrderID]api.Order {
	f.t.Helper()
	orders := map[sluice.OrderID]api.Order{}
	for o, err := range f.clients[0].AllAdminOrders(f.t.Context(), sluice.OrderFilter{Sale: f.sale}) {
		if err != nil {
			f.t.Fatal(err)
		}
		orders[o.OrderID] = o
	}
	return orders
}

// Redis is killed in the middle of a rush and comes back with an append-only
// file of long before. The sale fences itself, is rebuilt, and goes on: orders
// that were stored are as they were, and promises that only the lost part of
// the file knew are kept from the servers' memory.
func TestRedisComesBackOlder(t *testing.T) {
	t.Parallel()
	const buyers, total, servers = 1600, 1000, 2
	f := newFleet(t, servers, total)
	kept := t.TempDir()
	var mu sync.Mutex
	promised, cancelled := map[int]string{}, map[string]bool{}
	var promises, next atomic.Int64
	early, late := make(chan struct{}), make(chan struct{})
	var rush sync.WaitGroup
	for g := range 16 {
		rush.Go(func() {
			for {
				buyer := int(next.Add(1))
				if buyer > buyers {
					return
				}
				status, order := f.claim(g%servers, buyer)
				for deadline := time.Now().Add(60 * time.Second); status != http.StatusAccepted && status != http.StatusConflict; {
					if time.Now().After(deadline) {
						t.Errorf("buyer %d: no decision in a minute: %d", buyer, status)
						return
					}
					time.Sleep(20 * time.Millisecond) // 503: again, with the same key
					status, order = f.claim(g%servers, buyer)
				}
				if status == http.StatusConflict {
					continue
				}
				mu.Lock()
				promised[buyer] = order
				mu.Unlock()
				if buyer%10 == 0 {
					f.cancel(g%servers, order)
					mu.Lock()
					cancelled[order] = true
					mu.Unlock()
				}
				switch promises.Add(1) {
				case total / 5:
					close(early)
				case total * 3 / 5:
					close(late)
				}
			}
		})
	}
	<-early
	f.keepAOF(kept)
	<-late
	f.redis.Kill()
	before := f.storedOrders()
	f.swapAOF(kept, f.redis.Dir())
	f.redis.Start()
	rush.Wait()
	f.until("the rebuild, and everything stored and given back", func() bool {
		sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
		return err == nil && sale.Epoch >= 2 && sale.Fence == "" && sale.Backlog == 0 && sale.StoredTaken == sale.Taken
	})

	now := f.storedOrders()
	for id, o := range before {
		have, there := now[id]
		ended := have.Status == sluice.Cancelled && cancelled[string(id)]
		if !there || have.BuyerID != o.BuyerID || have.Key != o.Key || have.Status != o.Status && !ended {
			t.Errorf("order %s was stored before the loss as %s of %s; now it is %s of %q", id, o.Status, o.BuyerID, have.Status,
				have.BuyerID)
		}
	}
	listed := f.listedAsLost(now)
	lost := 0
	for buyer, order := range promised {
		if listed[order] {
			lost++
			continue
		}
		f.keeps(buyer%servers, buyer, order)
		o := now[sluice.OrderID(order)]
		if want := map[bool]sluice.Status{false: sluice.Pending, true: sluice.Cancelled}[cancelled[order]]; o.Status != want {
			t.Errorf("order %s is %q, want %s", order, o.Status, want)
		}
	}
	sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
	if err != nil || sale.Taken > total || sale.StoredTaken != sale.Taken ||
		sale.Taken != int64(len(promised)-len(cancelled)-lost) {
		t.Errorf("taken %d by the ledger, %d by the store, %v; %d promises, %d cancelled, %d lost of %d units",
			sale.Taken, sale.StoredTaken, err, len(promised), len(cancelled), lost, total)
	}
	report, err := f.engines[0].Audit(t.Context(), f.sale)
	if err != nil || !report.OK && lost == 0 {
		t.Errorf("audit: %+v, %v", report.Checks, err)
	}
	t.Logf("%d promises, %d cancelled, %d stored before the loss, %d listed as lost, epoch %d", len(promised),
		len(cancelled), len(before), lost, sale.Epoch)
}

// listedAsLost are the promises that could not be kept, by order id: rejected
// as not covered, or named by a dead letter.
func (f *fleet) listedAsLost(orders map[sluice.OrderID]api.Order) map[string]bool {
	f.t.Helper()
	listed := map[string]bool{}
	for id, o := range orders {
		if o.Status == sluice.Rejected && o.Reason == sluice.NotCovered {
			listed[string(id)] = true
		}
	}
	letters := must.Get(f.clients[0].DeadLetters(f.t.Context(), f.sale))(f.t)
	for i := range letters {
		for line := range strings.Lines(letters[i].Claims) {
			if parts := strings.Split(line, "\t"); len(parts) > 2 {
				listed[parts[2]] = true
			}
		}
	}
	return listed
}
