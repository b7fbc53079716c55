package sqlcore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A migration runs while other servers sell on the same database. On a table that
// grows with orders it may do only what takes no time, however many rows there are:
// add a column, drop a check, or add one that leaves the rows that are there. (SQLite
// migrates before its one server serves.)
func TestMigrationsAreInstant(t *testing.T) {
	files, err := filepath.Glob(filepath.FromSlash("../../*store/migrations/*.sql"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) <= "00010_unpaid.sql" || strings.Contains(file, "sqlitestore") {
			continue // older than the rule
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range slow(string(text), strings.Contains(file, "mysqlstore")) {
			t.Errorf("%s: %s", file, fault)
		}
		const briefly = "\n-- +goose Up\nSET LOCAL lock_timeout = '200ms';\n"
		if strings.Contains(file, "pgstore") && !strings.Contains(string(text), briefly) {
			t.Errorf("%s: others wait while it waits for a table", file)
		}
	}
	for text, want := range map[string]int{
		"ALTER TABLE orders ADD COLUMN x bigint;":                                0,
		"ALTER TABLE orders ADD COLUMN x bigint NOT NULL DEFAULT 0;":             0,
		"ALTER TABLE orders ADD COLUMN x bigint CHECK (x > 0);":                  1,
		"ALTER TABLE orders ADD CONSTRAINT c CHECK (seq > 0);":                   1,
		"ALTER TABLE orders ADD CONSTRAINT c CHECK (seq > 0) NOT VALID":          0,
		"ALTER TABLE orders DROP CONSTRAINT c;":                                  0,
		"ALTER TABLE orders ADD CONSTRAINT c CHECK (x IN ('a', 'b')) NOT VALID;": 0,
		"ALTER TABLE orders ADD CONSTRAINT c CHECK (x IN ('a', 'b'));":           1,
		"CREATE INDEX i ON orders (seq);":                                        1,
		"CREATE UNIQUE INDEX i\n ON order_changes (event);":                      1,
		"UPDATE orders SET meta = '';":                                           1,
		"DELETE FROM admin_actions;":                                             1,
		"ALTER TABLE sales ADD COLUMN x bigint; UPDATE sales SET x = 1":          0,
		"CREATE TABLE y (order_id text)":                                         0,
	} {
		if got := slow(text, false); len(got) != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := slow("'ALTER TABLE orders ADD COLUMN x BIGINT', 'DO 0'", true); len(got) != 1 {
		t.Errorf("MySQL without ALGORITHM=INSTANT: %q", got)
	}
}

// growing are these tables. It leaves out order_events, which has a row for a batch of
// orders, and which only the numbering of events writes: no claim and no order waits.
const growing = `(orders|order_changes|sale_events|sale_buyers|releases|webhook_deliveries|` +
	`admin_actions|dead_letters)\b`

var (
	touches = regexp.MustCompile(`(?is)\b(UPDATE|DELETE FROM|ALTER TABLE|INDEX \w+\s+ON)\s+` + growing + `([^;']|'[\w ]*')*`)
	lists   = regexp.MustCompile(`(?is)\bIN\s*\([^()]*\)`)
	instant = regexp.MustCompile(`(?is)^ALTER TABLE \w+ (ADD COLUMN \w+ [a-z]+(\(\d+\))?( NOT NULL DEFAULT [^(,]+)?|` +
		`DROP CONSTRAINT \w+|MODIFY \w+ \w+\(\d+\) NOT NULL|ADD CONSTRAINT [^,]+ NOT VALID)$`)
)

// slow returns the statements that may take long, or lock long, on a large table.
func slow(text string, mysql bool) (all []string) {
	for _, statement := range touches.FindAllString(text, -1) {
		plain, said := strings.CutSuffix(strings.TrimSpace(statement), ", ALGORITHM=INSTANT")
		// To drop a check reads no rows, and not every MySQL knows to call that INSTANT.
		drops := strings.Contains(plain, " DROP CONSTRAINT ")
		if !instant.MatchString(lists.ReplaceAllString(plain, "IN ()")) || mysql && !said && !drops {
			all = append(all, statement)
		}
	}
	return all
}
