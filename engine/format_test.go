package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// What a newer program has written is refused in a sentence, and nothing of it
// is changed: the newer program finds everything again. A test's newer program
// is this one, after the version has been put back.

func formatSale(id sluice.SaleID) sluice.Sale {
	return sluice.Sale{
		ID: id, SKU: "sku", Title: "title", Price: sluice.Money{Amount: 1, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 5, MaxPerBuyer: 1, MaxOrders: 9,
			OpensAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond),
		},
		PaymentWindow: time.Hour, PaymentGrace: time.Second,
	}
}

func execFile(t *testing.T, file, statement string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)"))(t)
	defer db.Close()
	must.Get(db.Exec(statement))(t)
}

func TestFilesOfANewerProgram(t *testing.T) {
	for name, tc := range map[string]struct{ file, newer, back, want string }{
		"ledger": {
			"ledger.db", `PRAGMA user_version = 99`, `PRAGMA user_version = 1`,
			"the ledger has format 99, this program reads format 1",
		},
		"store": {
			"store.db", `INSERT INTO sluice_schema (version_id, is_applied) VALUES (999, 1)`,
			`DELETE FROM sluice_schema WHERE version_id = 999`,
			"a newer sluice has migrated it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openShop(t, dir)
			must.Get(s.engine.Control().Create(t.Context(), formatSale(restoreSale)))(t)
			order, code := s.claim(1)
			if code != "accepted" {
				t.Fatal(code)
			}
			s.close()

			file := filepath.Join(dir, tc.file)
			execFile(t, file, tc.newer)
			before := must.Get(os.ReadFile(file))(t)
			e, err := engine.Open(t.Context(), engine.Config{DataDir: dir})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.file) {
				t.Errorf("engine %v, error %v; want %q and the file", e, err, tc.want)
			}
			if _, err := engine.OpenAudit(t.Context(), engine.Config{DataDir: dir}); err == nil ||
				!strings.Contains(err.Error(), "99") {
				t.Errorf("audit: error %v, want one that names the version", err)
			}
			to := filepath.Join(t.TempDir(), "backup")
			if _, err := engine.Backup(t.Context(), engine.Config{DataDir: dir}, to, false); err == nil ||
				!strings.Contains(err.Error(), "99") {
				t.Errorf("backup: error %v, want one that names the version", err)
			}
			if after := must.Get(os.ReadFile(file))(t); string(after) != string(before) {
				t.Error("the file was changed")
			}

			execFile(t, file, tc.back)
			s = openShop(t, dir)
			if again, code := s.claim(1); again != order {
				t.Errorf("buyer 1 was promised %s and gets %s %s", order, again, code)
			}
		})
	}
}

// redisShop is a shop whose ledger is in a Redis of its own, with one sale, and
// a connection to that Redis.
func redisShop(t *testing.T) (dir, url string, redis rueidis.Client) {
	t.Helper()
	server := servertest.StartRedis(t)
	redis = must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true}))(t)
	t.Cleanup(redis.Close)
	return t.TempDir(), server.URL(), redis
}

func openRedisShop(t *testing.T, dir, url string) *shop {
	t.Helper()
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: dir, Ledger: url, AdminKey: "admin-key-of-the-shop", BuyerSecret: "buyer-secret-of-the-fleet",
		ReconcileInterval: 200 * time.Millisecond,
	}))(t)
	s := &shop{t: t, dir: dir, engine: e}
	t.Cleanup(s.close)
	return s
}

// A sale of a newer format in Redis is not sold from, not fenced and not
// reloaded.
func TestASaleOfANewerFormatInRedis(t *testing.T) {
	dir, url, redis := redisShop(t)
	s := openRedisShop(t, dir, url)
	must.Get(s.engine.Control().Create(t.Context(), formatSale(restoreSale)))(t)
	must.Get(s.engine.Control().Create(t.Context(), formatSale("lamp")))(t)
	order, code := s.claim(1)
	if code != "accepted" {
		t.Fatal(code)
	}
	s.close()
	key := "sluice:{" + string(restoreSale) + "}:sale"
	set := func(format string) {
		t.Helper()
		must.Succeed(t, redis.Do(t.Context(), redis.B().Hset().Key(key).FieldValue().FieldValue("format", format).Build()).
			Error())
	}
	dump := func() string {
		t.Helper()
		fields := must.Get(redis.Do(t.Context(), redis.B().Hgetall().Key(key).Build()).AsStrMap())(t)
		return fmt.Sprint(fields)
	}
	set("2")
	before := dump()
	s = openRedisShop(t, dir, url)
	f := &fleet{t: t, engines: []*engine.Engine{s.engine}, sale: restoreSale}
	f.sale = "lamp"
	if status, _ := f.claim(0, 2); status != http.StatusAccepted {
		t.Errorf("the other sale: %d", status)
	}
	f.sale = restoreSale
	for range 20 { // while the server looks at it again and again
		if status, order := f.claim(0, 1); status != http.StatusServiceUnavailable {
			t.Errorf("a claim gets %d %s, want 503", status, order)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := s.engine.Audit(t.Context(), restoreSale); err != nil {
		t.Errorf("audit: %v", err)
	}
	if after := dump(); after != before {
		t.Errorf("the sale was changed:\n%s\n%s", before, after)
	}
	s.close()
	set("1")
	s = openRedisShop(t, dir, url)
	if again, code := s.claim(1); again != order {
		t.Errorf("buyer 1 was promised %s and gets %s %s", order, again, code)
	}
}

// A journal entry of a newer format is set aside as it is, for a person, and its
// order is stored from the ledger's record.
func TestAnEntryOfANewerFormatInRedis(t *testing.T) {
	dir, url, redis := redisShop(t)
	s := openRedisShop(t, dir, url)
	must.Get(s.engine.Control().Create(t.Context(), formatSale(restoreSale)))(t)
	s.close()
	ctx := t.Context()
	ledger := must.Get(redisledger.Open(ctx, url, redisledger.Options{Node: "newer"}))(t)
	order := restoreSale.Order(strings.Repeat("0a", 16))
	claims := []sluice.Claim{{Buyer: "buyer-00001", Key: "attempt-buyer-00001", Quantity: 1, Order: order}}
	decisions, err := ledger.Claim(ctx, restoreSale, claims)
	if err != nil || decisions[0].Code != sluice.Accepted {
		t.Fatal(decisions, err)
	}
	must.Succeed(t, ledger.Close())
	key := "sluice:{" + string(restoreSale) + "}:journal"
	entries, err := redis.Do(ctx, redis.B().Xrange().Key(key).Start("-").End("+").Build()).AsXRange()
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	fields := redis.B().Xadd().Key(key).Id("*").FieldValue()
	for name, value := range entries[0].FieldValues {
		if name == "v" {
			value = "2"
		}
		fields = fields.FieldValue(name, value)
	}
	must.Succeed(t, redis.Do(ctx, fields.Build()).Error())
	must.Succeed(t, redis.Do(ctx, redis.B().Xdel().Key(key).Id(entries[0].ID).Build()).Error())

	s = openRedisShop(t, dir, url)
	await(t, "the entry to be set aside, and its order to be stored", func() bool {
		report, err := s.engine.Audit(context.Background(), restoreSale)
		return err == nil && report.Figures.Store.DeadLetters == 1 && report.Figures.Store.Orders == 1
	})
	again, code := s.claim(1)
	if again != order {
		t.Errorf("the buyer was promised %s and gets %s %s", order, again, code)
	}
	s.close()
	letters := deadLetters(t, filepath.Join(dir, "store.db"))
	if len(letters) != 1 || !strings.Contains(letters[0].Reason, `journal format "2", want 1`) ||
		!strings.Contains(letters[0].Claims, string(order)) {
		t.Errorf("%+v", letters)
	}
}

func deadLetters(t *testing.T, file string) (letters []port.DeadLetter) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+file))(t)
	defer db.Close()
	rows := must.Get(db.Query(`SELECT reason, claims FROM dead_letters`))(t)
	defer rows.Close()
	for rows.Next() {
		var l port.DeadLetter
		var claims []byte
		must.Succeed(t, rows.Scan(&l.Reason, &claims))
		l.Claims = string(claims)
		letters = append(letters, l)
	}
	must.Succeed(t, rows.Err())
	return letters
}
