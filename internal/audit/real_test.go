package audit_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/pgstore"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// stage is a real ledger and a real store, and a way to damage the store.
type stage struct {
	ledger port.Ledger
	store  port.Store
	sale   sluice.SaleID
	db     *sql.DB // on the store, without its CHECK constraints

	// beside opens the read-only pair of another process.
	beside func(t *testing.T) (audit.Ledger, audit.Store)
}

// stages runs the test on each pair of a ledger and a store.
func stages(t *testing.T, test func(t *testing.T, s *stage)) {
	t.Run("embedded", func(t *testing.T) { test(t, embedded(t)) })
	t.Run("redis+postgres", func(t *testing.T) { test(t, servers(t)) })
}

func embedded(t *testing.T) *stage {
	dir := t.TempDir()
	ledgerPath, storePath := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "store.db")
	s := &stage{beside: func(t *testing.T) (audit.Ledger, audit.Store) {
		store, err := port.StoreDriverOf("sqlite:").OpenReadOnly(t.Context(), "sqlite:"+storePath)
		must.Succeed(t, err)
		t.Cleanup(func() { store.Close() })
		ledger, err := port.LedgerDriverOf("sqlite:").OpenReadOnly(t.Context(), "sqlite:"+ledgerPath)
		must.Succeed(t, err)
		return ledger, store
	}}
	var err error
	s.ledger, err = sqliteledger.Open(t.Context(), ledgerPath, sqliteledger.Options{Node: "n1"})
	must.Succeed(t, err)
	s.store, err = sqlitestore.Open(t.Context(), storePath, sqlitestore.Options{})
	must.Succeed(t, err)
	s.db, err = sql.Open("sqlite", storePath+"?_pragma=ignore_check_constraints(1)&_pragma=busy_timeout(10000)")
	must.Succeed(t, err)
	s.ready(t)
	return s
}

func servers(t *testing.T) *stage {
	redisURL, postgresURL := servertest.Redis(t), servertest.Postgres(t)
	s := &stage{beside: func(t *testing.T) (audit.Ledger, audit.Store) {
		ledger, err := port.LedgerDriverOf(redisURL).OpenReadOnly(t.Context(), redisURL)
		must.Succeed(t, err)
		t.Cleanup(func() { ledger.Close() })
		store, err := port.StoreDriverOf(postgresURL).OpenReadOnly(t.Context(), postgresURL)
		must.Succeed(t, err)
		t.Cleanup(func() { store.Close() })
		return ledger, store
	}}
	var err error
	s.ledger, err = redisledger.Open(t.Context(), redisURL, redisledger.Options{Node: "n1"})
	must.Succeed(t, err)
	s.store, err = pgstore.Open(t.Context(), postgresURL, pgstore.Options{})
	must.Succeed(t, err)
	s.db, err = sql.Open("pgx", postgresURL)
	must.Succeed(t, err)
	s.ready(t)
	s.exec(t, "ALTER TABLE sales DROP CONSTRAINT no_oversell")
	return s
}

// ready creates the sale of 1,000 units and loads it.
func (s *stage) ready(t *testing.T) {
	t.Cleanup(func() {
		must.Succeed(t, s.ledger.Close())
		must.Succeed(t, s.store.Close())
		must.Succeed(t, s.db.Close())
	})
	s.sale = sluice.SaleID("audit-" + strings.ReplaceAll(uuid.NewString(), "-", ""))
	now := time.Now().UTC().Truncate(time.Millisecond)
	_, err := s.store.CreateSale(t.Context(), sluice.Sale{
		ID: s.sale, SKU: "sku", Title: "title", Price: sluice.Money{Amount: 100, Currency: "CNY"},
		Terms: sluice.Terms{
			Total: 1000, MaxPerBuyer: 3, MaxOrders: 20, OpensAt: now.Add(-time.Minute), ClosesAt: now.Add(time.Hour),
		},
		PaymentWindow: time.Hour, PaymentGrace: time.Second,
	})
	must.Succeed(t, err)
	must.Succeed(t, settle.NewLoader(s.store, s.ledger).Load(t.Context(), s.sale))
}

// claims makes one claim for each buyer.
func (s *stage) claims(buyers ...string) []sluice.Claim {
	claims := make([]sluice.Claim, len(buyers))
	for i, b := range buyers {
		id := strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
		claims[i] = sluice.Claim{
			Buyer: sluice.BuyerID(b), Key: sluice.Key("key-" + id), Quantity: 1, Order: s.sale.Order(id),
		}
	}
	return claims
}

func (s *stage) claim(t *testing.T, buyers ...string) {
	t.Helper()
	decisions, err := s.ledger.Claim(t.Context(), s.sale, s.claims(buyers...))
	must.Succeed(t, err)
	for i, d := range decisions {
		if d.Code != sluice.Accepted {
			t.Fatalf("%s: %s", buyers[i], d.Code)
		}
	}
}

// store moves what is in the journal into the store.
func (s *stage) drain(t *testing.T) {
	t.Helper()
	p := pipeline.New(s.ledger, s.store, pipeline.Options{})
	p.Wake(s.sale)
	must.Succeed(t, p.Close(t.Context()))
}

func (s *stage) exec(t *testing.T, query string) {
	t.Helper()
	_, err := s.db.Exec(query)
	must.Succeed(t, err)
}

func (s *stage) run(t *testing.T) sluice.AuditReport {
	t.Helper()
	r, err := audit.Run(t.Context(), s.ledger, s.store, s.sale)
	must.Succeed(t, err)
	return r
}

// sold sells ten units, seven of them stored.
func (s *stage) sold(t *testing.T) {
	s.claim(t, "b1", "b2", "b3", "b4", "b4")
	s.claim(t, "b5", "b6")
	s.drain(t)
	s.claim(t, "b7", "b8", "b9")
}

func TestRealSaleIsGreen(t *testing.T) {
	stages(t, func(t *testing.T, s *stage) {
		wantRed(t, s.run(t))
		s.sold(t)
		for _, inFlight := range []int64{3, 0} {
			r := s.run(t)
			wantRed(t, r)
			ledger, store := s.beside(t)
			all, err := audit.RunAll(t.Context(), ledger, store)
			must.Succeed(t, err)
			i := slices.IndexFunc(all, func(r sluice.AuditReport) bool { return r.Sale == s.sale })
			wantRed(t, all[i])
			if r.InFlight != inFlight || all[i].InFlight != inFlight || r.Figures.Ledger.Taken != 10 ||
				r.Figures.Store.Taken != 10-inFlight {
				t.Errorf("want %d in flight: %+v, from beside %d", inFlight, r, all[i].InFlight)
			}
			s.drain(t)
		}
	})
}

// The violations that a store can be brought to from outside, each turning
// exactly its check red.
func TestRealPlanted(t *testing.T) {
	const last = "(SELECT max(position) FROM orders WHERE sale_id = '{sale}')"
	for _, c := range []struct{ name, plant, red string }{
		{"total below what is taken", "UPDATE sales SET total = 6, cap = 6 WHERE id = '{sale}'", "I1"},
		{"a promise not covered", "UPDATE orders SET status = 'rejected', reason = 'not_covered' WHERE position = " + last +
			"; UPDATE sales SET taken = taken - 1 WHERE id = '{sale}'", "I1"},
		{"a unit lost", "UPDATE sales SET taken = taken + 1 WHERE id = '{sale}'", "I2"},
		{"a unit returned twice", "UPDATE sales SET taken = taken - 1 WHERE id = '{sale}'", "I2"},
		{"a buyer over the limit", "UPDATE sale_terms SET max_per_buyer = 1 WHERE sale_id = '{sale}'", "I3"},
		{"a missing order", "DELETE FROM orders WHERE position = " + last +
			"; UPDATE sales SET taken = taken - 1 WHERE id = '{sale}'", "I5"},
		{
			"an order too many",
			"INSERT INTO orders (order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency, status, " +
				"reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at) SELECT " +
				"'{sale}.ffffffffffffffffffffffffffffffff', sale_id," +
				" 'thief', claim_key, quantity, meta, price_amount, currency, status, reason, epoch, 1000, terms, node, " +
				"accepted_at, stored_at, expires_at, keep_until, updated_at FROM orders WHERE position = " + last +
				"; UPDATE sales SET taken = taken + 1 WHERE id = '{sale}'", "I5",
		},
		{"another buyer's order", "UPDATE orders SET buyer_id = 'thief' WHERE position = " + last, "I5"},
		{"an order after closing", "UPDATE sale_terms SET opens_at = (SELECT min(opens_at) FROM sale_terms) - {minute}," +
			" closes_at = opens_at WHERE sale_id = '{sale}'", "I8"},
		{"an order while paused", "UPDATE sale_terms SET paused = {true} WHERE sale_id = '{sale}'", "I8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stages(t, func(t *testing.T, s *stage) {
				s.sold(t)
				wantRed(t, s.run(t))
				words := []string{"{sale}", string(s.sale), "{minute}", "60000", "{true}", "1"}
				if strings.HasSuffix(t.Name(), "postgres") {
					words = []string{"{sale}", string(s.sale), "{minute}", "interval '1 minute'", "{true}", "true"}
				}
				s.exec(t, strings.NewReplacer(words...).Replace(c.plant))
				wantRed(t, s.run(t), c.red)
			})
		})
	}
}

// While buyers rush a sale and its terms change, audits inside the server and
// beside it are green; in the end every unit is sold and stored.
func TestRealRush(t *testing.T) {
	stages(t, func(t *testing.T, s *stage) {
		var buying sync.WaitGroup
		over := make(chan struct{})
		p := pipeline.New(s.ledger, s.store, pipeline.Options{MaxClaims: 20})
		for crowd := range 4 {
			buying.Go(func() {
				for n := range 50 {
					var buyers []string
					for i := range 10 {
						buyers = append(buyers, fmt.Sprintf("b-%d-%d-%d", crowd, n/2, i))
					}
					if _, err := s.ledger.Claim(t.Context(), s.sale, s.claims(buyers...)); err != nil {
						t.Error(err)
						return
					}
					p.Wake(s.sale)
				}
			})
		}
		buying.Go(func() {
			for n := range int64(5) {
				sale, err := s.store.ChangeSale(t.Context(), s.sale, func(sale *sluice.Sale) error {
					sale.MaxPerBuyer = 3 + n
					return nil
				})
				if err == nil {
					err = s.ledger.Apply(t.Context(), s.sale, sale.Epoch, sale.Terms)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		go func() {
			buying.Wait()
			if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
			close(over)
		}()

		ledger, store := s.beside(t)
		audits, met := 0, int64(0)
		for last := false; !last; audits += 2 {
			select {
			case <-over:
				last = true
			default:
			}
			r := s.run(t)
			wantRed(t, r)
			b, err := audit.Run(t.Context(), ledger, store, s.sale)
			must.Succeed(t, err)
			wantRed(t, b)
			if t.Failed() {
				<-over // the buyers use what the test's end closes
				return
			}
			met += r.InFlight + r.Figures.Newer + b.InFlight + b.Figures.Newer
			if last && (r.InFlight != 0 || r.Figures.Store.Taken != 1000 || r.Figures.Store.Orders != 1000) {
				t.Errorf("after the rush: %+v %+v", r, *r.Figures)
			}
		}
		t.Logf("%d audits met %d claims on their way", audits, met)
		if met == 0 {
			t.Error("no audit met a claim on its way")
		}
	})
}
