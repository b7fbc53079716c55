package e2e

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A store with a million orders is migrated from the old version while another
// server sells: no claim takes longer than a second, and no payment three. The
// embedded store has one server; its start is measured. docs/upgrading.md has the
// figures. `make soak` runs it once, whatever the duration.
func TestSoakMigration(t *testing.T) {
	soak(t)
	old := buildOld(t, oldVersion)
	t.Run("postgres", func(t *testing.T) {
		migrateBesideSale(t, old, backends{servertest.Redis(t), servertest.Postgres(t)})
	})
	t.Run("mysql", func(t *testing.T) {
		migrateBesideSale(t, old, backends{servertest.Redis(t), servertest.MySQL(t)})
	})
	t.Run("embedded", func(t *testing.T) {
		s := newServer(t, backends{})
		s.program = old
		s.start()
		ended, other := createSale(t, s, 10, 1), createSale(t, s, 10, 1)
		endOneOrder(t, s, ended)
		if _, err := s.merchant().PauseSale(t.Context(), other); err != nil { // or the new version refuses to start
			t.Fatal(err)
		}
		s.terminate()
		fillOrders(t, s, ended)
		s.program = ""
		for _, when := range []string{"with the migration", "again"} {
			began := time.Now()
			s.start()
			t.Logf("ready after %v %s", time.Since(began).Round(time.Millisecond), when)
			s.terminate()
		}
		s.start()
		if _, err := s.merchant().ResumeSale(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		awaitState(t, []*server{s}, other, sluice.StateOpen)
		rush := startRush(t, loadgen.Options{Sale: other, Buyers: 20}, []string{s.url}, 71)
		verify(t, s, rush, 10, 1)
	})
}

const millionOrders = 1_000_000

func migrateBesideSale(t *testing.T, old string, on backends) {
	t.Helper()
	seller, fresh := newServer(t, on), newServer(t, on)
	seller.program = old
	seller.start()
	const total, perBuyer = 1_000_000, 50
	ended, sale := createSale(t, seller, 10, 1), createSale(t, seller, total, perBuyer)
	endOneOrder(t, seller, ended)
	fillOrders(t, seller, ended)
	awaitState(t, []*server{seller}, sale, sluice.StateOpen)

	paying, promises := make(chan time.Duration), make(chan loadgen.Promise, total)
	go func() { // pays one order after the other, with its own server
		var longest time.Duration
		defer func() { paying <- longest }()
		for p := range promises {
			began := time.Now()
			for n := 0; ; n++ { // it may not be stored yet
				if _, err := seller.merchant().PayOrder(t.Context(), p.Order, "payment-"+string(p.Order)); err == nil {
					break
				} else if time.Since(began) > patience {
					t.Errorf("a payment: %v", err)
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
			longest = max(longest, time.Since(began))
		}
	}()
	rush := startRush(t, loadgen.Options{
		Sale: sale, Buyers: 2000, Rate: 100, Duration: 15 * time.Second,
		Accepted: func(p loadgen.Promise) { promises <- p },
	}, []string{seller.url}, 71)
	if !rush.awaitDecided(200) {
		t.Fatal("the rush was over too soon")
	}
	began := time.Now()
	fresh.start()
	ready := time.Since(began)
	rush.wait()
	close(promises)
	claim, payment := time.Duration(rush.outcomes[0].LatencyMS.Max*float64(time.Millisecond)), <-paying
	t.Logf("the new server is ready after %v; the longest claim takes %v, the longest payment %v",
		ready.Round(time.Millisecond), claim.Round(time.Millisecond), payment.Round(time.Millisecond))
	if claim > time.Second || payment > 3*time.Second {
		t.Error("the migration blocks claims or payments")
	}
	await(t, "every order to be stored", func() bool {
		got, err := fresh.merchant().AdminSale(t.Context(), sale)
		return err == nil && got.Backlog == 0 && got.StoredTaken == got.Taken && got.Taken == rush.accepted()
	})
	audit(t, fresh, sale, 0, "after the migration")
}

// endOneOrder has an order placed and cancelled.
func endOneOrder(t *testing.T, s *server, sale sluice.SaleID) {
	t.Helper()
	awaitState(t, []*server{s}, sale, sluice.StateOpen)
	ann := buyer(t, s.url, "ann", client.Options{})
	placed, err := ann.Place(t.Context(), sale, client.NewKey(), api.PlaceOrder{Quantity: 1})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "an order that is cancelled", func() bool { // it may not be stored yet
		order, err := ann.CancelOrder(t.Context(), placed.OrderID)
		return err == nil && order.Status == sluice.Cancelled
	})
	await(t, "its unit to be back", func() bool {
		got, err := s.merchant().AdminSale(t.Context(), sale)
		return err == nil && got.Taken == 0
	})
}

// fillOrders archives a sale that has one order, and copies that order until there
// are a million.
func fillOrders(t *testing.T, s *server, sale sluice.SaleID) {
	t.Helper()
	kind, _, _ := strings.Cut(s.on.store, ":")
	words := map[string]struct{ id, series, when string }{
		"postgres": {"sale_id || '.' || lpad(to_hex(n), 32, '0')", "generate_series(2, %d) AS s (n)", "'2026-01-01'"},
		"mysql":    {"concat(sale_id, '.', lpad(hex(n), 32, '0'))", "(SELECT seq AS n FROM seq_2_to_%d) s", "'2026-01-01'"},
		"": {
			"sale_id || '.' || printf('%%032x', n)",
			"(WITH RECURSIVE c (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c WHERE n < %d) SELECT n FROM c) s",
			"1767225600000",
		},
	}[kind]
	const same = `quantity, meta, price_amount, currency, status, reason, epoch, terms, node,
		accepted_at, stored_at, expires_at, keep_until, updated_at, payment_id`
	key := strings.Replace(words.id, "sale_id", "'key'", 1)
	for _, statement := range []string{
		"UPDATE sales SET archived_at = " + words.when + " WHERE id = '" + string(sale) + "'",
		"INSERT INTO orders (order_id, sale_id, buyer_id, claim_key, seq, " + same + ") SELECT " +
			fmt.Sprintf(words.id+", sale_id, "+key+", claim_key, n, "+same+" FROM orders, "+words.series, millionOrders) +
			" WHERE sale_id = '" + string(sale) + "'",
		// Events of the copies would only take time.
		"UPDATE event_marks SET position = (SELECT max(position) FROM orders) WHERE sale_id = '" + string(sale) + "'",
	} {
		began := time.Now()
		if err := execute(t, s, kind, statement); err != nil {
			t.Fatalf("%.200s: %v", statement, err)
		}
		t.Logf("%.30s takes %v", statement, time.Since(began).Round(time.Millisecond))
	}
}

// execute runs a statement behind the store's back.
func execute(t *testing.T, s *server, kind, statement string) error {
	t.Helper()
	switch kind {
	case "postgres":
		conn, err := pgx.Connect(t.Context(), s.on.store)
		if err != nil {
			return err
		}
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), statement)
		return err
	case "mysql":
		u, err := url.Parse(s.on.store)
		if err != nil {
			return err
		}
		config := mysql.NewConfig()
		config.User, config.Net, config.Addr, config.DBName = u.User.Username(), "tcp", u.Host, u.Path[1:]
		config.Passwd, _ = u.User.Password()
		db, err := sql.Open("mysql", config.FormatDSN())
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(t.Context(), statement)
		return err
	}
	_, err := editSQLite(filepath.Join(s.dir, "store.db"), statement)
	return err
}
