package mysqlstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

// A batch of the longest texts there are is stored by a server whose packets
// are as small as they may be, also when every byte needs an escape.
func TestBatchesFitIntoSmallPackets(t *testing.T) {
	server := servertest.StartMySQL(t, "--max-allowed-packet=1M")
	s := open(t, server.URL())
	storetest.Load(t, s)
	const n = 1500
	e := port.Entry{
		ID: "1", Sale: "phones", Epoch: 1, Node: strings.Repeat(`'`, 200), Terms: 1, At: time.Now(),
		FirstSeq: 1,
	}
	for i := range n {
		e.Claims = append(e.Claims, sluice.Claim{
			Buyer: sluice.BuyerID(fmt.Sprintf("%s%06d", strings.Repeat(`\`, 122), i)), Key: sluice.Key(fmt.Sprintf("%064d", i)),
			Quantity: 1,
			Order:    sluice.SaleID("phones").Order(fmt.Sprintf("%032x", i)), Meta: strings.Repeat(`"`, sluice.MaxMeta),
		})
	}
	storetest.InsertBatch(t, s, e)
	if got, err := s.Insert(t.Context(), "phones", []port.Entry{e}); err != nil || got.Redelivered != n {
		t.Errorf("again: %+v, %v, want %d redelivered", got, err, n)
	}
	order, err := s.Order(t.Context(), e.Claims[n-1].Order)
	if err != nil || order.Buyer != e.Claims[n-1].Buyer || order.Meta != e.Claims[n-1].Meta || order.Seq != n {
		t.Errorf("the last order: %+v, %v", order, err)
	}
}

// A constraint that the store does not know is an error, neither a redelivery
// nor a conflict, and nothing is stored.
func TestUnknownConstraints(t *testing.T) {
	for name, constraint := range map[string]string{
		"unique": "ADD CONSTRAINT surprise UNIQUE (node(10))",
		"check":  "ADD CONSTRAINT surprise CHECK (seq <> 7)",
		"width":  "MODIFY meta VARCHAR(5) NOT NULL", // INSERT IGNORE would cut it off
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, servertest.MySQL(t))
			storetest.Load(t, s)
			execute(t, mysqlstore.RawDB(s), "ALTER TABLE orders "+constraint)
			got, err := s.Insert(t.Context(), "phones", []port.Entry{storetest.Batch(1)})
			if conflict := (*port.ConflictError)(nil); !errors.Is(err, port.ErrUnstorable) || errors.As(err, &conflict) {
				t.Errorf("%+v, error %v, want ErrUnstorable, and no conflict", got, err)
			}
			if n := storetest.Batches(t, s); n != 0 {
				t.Errorf("%d orders are stored", n)
			}
		})
	}
}

// The database's own words against what must never be (I1, I2, I5), should any
// statement be wrong. It has none about statuses: those that had to grow were dropped,
// since to add them again would read all orders.
func TestChecks(t *testing.T) {
	s := open(t, servertest.MySQL(t))
	storetest.Load(t, s)
	e := storetest.Batch(1)
	storetest.InsertBatch(t, s, e)
	db := mysqlstore.RawDB(s)
	for name, statement := range map[string]string{
		"I1":        "UPDATE sales SET cap = taken - 1, total = taken - 1",
		"taken":     "UPDATE sales SET taken = -1",
		"epochs":    "UPDATE sales SET loaded_epoch = epoch + 1",
		"quantity":  "UPDATE orders SET quantity = 0 LIMIT 1",
		"times":     "UPDATE orders SET keep_until = stored_at LIMIT 1",
		"I5, order": "UPDATE orders SET order_id = 'x' LIMIT 2",
		"I5, place": "UPDATE orders SET seq = 1 LIMIT 2",
		"too long":  "UPDATE orders SET payment_id = repeat('x', 129) LIMIT 1",
	} {
		result, err := db.ExecContext(t.Context(), statement)
		if my := (*mysql.MySQLError)(nil); !errors.As(err, &my) {
			t.Errorf("%s: %v, error %v, want the database to refuse", name, result, err)
		}
	}
}

// What runs all the time looks at the rows that it is about, not at all orders.
func TestPlans(t *testing.T) {
	s := open(t, servertest.MySQL(t))
	storetest.Load(t, s)
	for n := 1; n <= 10; n++ {
		storetest.InsertBatch(t, s, storetest.Batch(n))
	}
	db, sql := mysqlstore.RawDB(s), mysqlstore.Statements()
	execute(t, db, "ANALYZE TABLE orders, releases, order_changes")
	now := time.Now().UTC().Truncate(time.Millisecond)
	ids := fmt.Sprintf(`["%s", "%s"]`, storetest.Batch(1).Claims[0].Order, storetest.Batch(2).Claims[1].Order)
	for _, test := range []struct {
		statement   string
		args        []any
		table, want string
	}{
		{sql["FindDue"], []any{now, `["radios"]`, 100}, "orders", "range orders_to_expire"},
		{sql["SelectDue"], []any{ids, now, 100}, "o", "eq_ref orders_order_id"},
		{sql["ExpireOrders"], []any{now, ids, now}, "orders", "eq_ref orders_order_id"},
		{sql["AddExpired"], []any{"x", ids}, "o", "eq_ref orders_order_id"},
		{sql["AddReleases"], []any{ids}, "o", "eq_ref orders_order_id"},
		{sql["NextReleasing"], []any{""}, "releases", "range releases_of_sale"},
		{sql["SelectReleases"], []any{"phones", 100}, "releases", "ref releases_of_sale"},
		{sql["DeleteReleases"], []any{ids}, "releases", "eq_ref releases_order_id"},
		{sql["LockOrder"], []any{storetest.Batch(1).Claims[0].Order}, "orders", "const orders_order_id"},
		{sql["LastSeq"], []any{"phones", 1}, "", " "}, // by the end of an index, of which EXPLAIN names no table
	} {
		if got, extra := plan(t, db, test.table, "EXPLAIN "+test.statement, test.args...); got != test.want ||
			strings.Contains(extra, "filesort") {
			t.Errorf("%s\nis done by %q (%s), want %q", test.statement, got, extra, test.want)
		}
	}
}

// plan returns how a table is read, by which index, and what else EXPLAIN says
// of it.
func plan(t *testing.T, db *sql.DB, table, query string, args ...any) (access, extra string) {
	t.Helper()
	rows := must.Get(db.Query(query, args...))(t)
	defer rows.Close()
	columns := must.Get(rows.Columns())(t)
	for rows.Next() {
		row := map[string]*sql.NullString{}
		values := make([]any, len(columns))
		for i, name := range columns {
			row[name] = new(sql.NullString)
			values[i] = row[name]
		}
		must.Succeed(t, rows.Scan(values...))
		if row["table"].String == table {
			access, extra = row["type"].String+" "+row["key"].String, row["Extra"].String
		}
	}
	must.Succeed(t, rows.Err())
	return access, extra
}

// A transaction that the database ends because of another one is tried again,
// but not one that has waited for a lock as long as it may.
func TestRetry(t *testing.T) {
	s := open(t, servertest.MySQL(t))
	storetest.Load(t, s)
	db := mysqlstore.RawDB(s)
	execute(t, db, "CREATE TABLE things (id INT PRIMARY KEY, n INT)")
	execute(t, db, "INSERT INTO things VALUES (1, 0), (2, 0)")

	t.Run("deadlock", func(t *testing.T) {
		errs := make(chan error, 2)
		first := make(chan struct{}, 2)
		both := make(chan struct{})
		for _, ids := range [][2]int{{1, 2}, {2, 1}} {
			go func() {
				tx, err := db.Begin()
				if err == nil {
					defer tx.Rollback()
					_, err = tx.Exec("UPDATE things SET n = n + 1 WHERE id = ?", ids[0])
				}
				first <- struct{}{}
				<-both
				if err == nil {
					_, err = tx.Exec("UPDATE things SET n = n + 1 WHERE id = ?", ids[1])
				}
				errs <- err
			}()
		}
		<-first
		<-first
		close(both)
		a, b := <-errs, <-errs
		if (a == nil) == (b == nil) || a != nil && !mysqlstore.Retry(a) || b != nil && !mysqlstore.Retry(b) {
			t.Errorf("errors %v and %v, want one to be tried again", a, b)
		}
	})
	t.Run("lock wait", func(t *testing.T) {
		own := open(t, servertest.MySQL(t)) // whose sessions may be spoilt
		db := mysqlstore.RawDB(own)
		execute(t, db, "CREATE TABLE things (id INT PRIMARY KEY)")
		execute(t, db, "INSERT INTO things VALUES (1)")
		holder, waiter := mustBegin(t, own), mustBegin(t, own)
		must.Get(holder.Exec("SELECT * FROM things WHERE id = 1 FOR UPDATE"))(t)
		must.Get(waiter.Exec("SET SESSION innodb_lock_wait_timeout = 1"))(t)
		if _, err := waiter.Exec("SELECT * FROM things WHERE id = 1 FOR UPDATE"); mysqlstore.Retry(err) ||
			!mysqlstore.Busy(err) {
			t.Errorf("error %v, want one of a busy store, which is not waited for again", err)
		}
	})
	for _, err := range []error{
		nil, errors.New("x"), context.Canceled, &mysql.MySQLError{Number: 1062},
		&mysql.MySQLError{Number: 4025},
	} {
		if mysqlstore.Retry(err) {
			t.Errorf("%v: tried again", err)
		}
	}
}

// Errors as both databases report them. What is not the statement's fault must not
// make dead letters.
func TestRefuses(t *testing.T) {
	for text, want := range map[string]bool{
		"1048 23000": true, "1062 23000": true, "1264 22003": true, "1364 HY000": true, "1366 22007": true,
		"1366 HY000": true, "1406 22001": true, "1452 23000": true, "1644 45000": true, "3819 HY000": true,
		"4025 23000": true, "30001 45000": true,
		"1021 HY000": false, "1037 HY001": false, "1040 08004": false, "1054 42S22": false, "1114 HY000": false,
		"1142 42000": false, "1146 42S02": false, "1205 HY000": false, "1213 40001": false, "1290 HY000": false,
		"1792 25006": false, "1969 70100": false,
	} {
		err := &mysql.MySQLError{}
		state := ""
		must.Get(fmt.Sscan(text, &err.Number, &state))(t)
		copy(err.SQLState[:], state)
		if got := mysqlstore.Refuses(fmt.Errorf("insert: %w", err)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
	if mysqlstore.Refuses(mysql.ErrInvalidConn) || mysqlstore.Refuses(context.DeadlineExceeded) {
		t.Error("a connection's trouble is the statement's")
	}
}

func mustBegin(t *testing.T, s *mysqlstore.Store) *sql.Tx {
	t.Helper()
	tx := must.Get(mysqlstore.RawDB(s).Begin())(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// A transaction that holds an order does not keep others from expiring the rest,
// and those that skip the order do not keep it from changing it (see FindDue).
func TestExpiryHoldsNothingThatItPassesOver(t *testing.T) {
	url := servertest.MySQL(t)
	s := open(t, url)
	storetest.Load(t, s)
	e := storetest.Batch(1)
	storetest.InsertBatch(t, s, e)
	server.Age(t, url)("phones", time.Hour)
	holder := mustBegin(t, s)
	statements := mysqlstore.Statements()
	must.Get(holder.Exec(statements["LockOrder"], string(e.Claims[7].Order)))(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	expiry := mustBegin(t, s)
	found := column(t, expiry, statements["FindDue"], now, "[]", len(e.Claims))
	list, err := json.Marshal(found)
	if err != nil || len(found) != len(e.Claims) {
		t.Fatalf("%d orders are due, %v, want %d", len(found), err, len(e.Claims))
	}
	held := column(t, expiry, statements["SelectDue"], string(list), now, len(e.Claims))
	if len(held) != len(e.Claims)-1 || slices.Contains(held, string(e.Claims[7].Order)) {
		t.Errorf("%d orders are held, want all but one", len(held))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	result := must.Get(holder.ExecContext(ctx, statements["ChangeOrder"], "cancelled", "", "", now, false,
		string(e.Claims[7].Order), "pending", now, true))(t)
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Errorf("%d orders changed, %v", n, err)
	}
}

// An insert of stored orders does not wait for a transaction that holds one of
// them: that one may be waiting for the sale's row, which the insert holds.
func TestStoringWaitsForNoOrder(t *testing.T) {
	s := open(t, servertest.MySQL(t))
	storetest.Load(t, s)
	e := storetest.Batch(1)
	storetest.InsertBatch(t, s, e)
	must.Get(mustBegin(t, s).Exec(mysqlstore.Statements()["LockOrder"], string(e.Claims[7].Order)))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := s.Insert(ctx, "phones", []port.Entry{e, storetest.Batch(2)})
	if err != nil || got.Redelivered != len(e.Claims) || got.Inserted != len(e.Claims) {
		t.Errorf("%+v, %v", got, err)
	}
}

// column returns the first column of what a statement selects.
func column(t *testing.T, tx *sql.Tx, query string, args ...any) (all []string) {
	t.Helper()
	rows := must.Get(tx.Query(query, args...))(t)
	defer rows.Close()
	columns := must.Get(rows.Columns())(t)
	for rows.Next() {
		var first string
		rest := make([]any, len(columns))
		for i := range rest {
			rest[i] = new(any)
		}
		rest[0] = &first
		must.Succeed(t, rows.Scan(rest...))
		all = append(all, first)
	}
	must.Succeed(t, rows.Err())
	return all
}
