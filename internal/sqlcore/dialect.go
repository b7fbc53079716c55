package sqlcore

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Queryer is a transaction or a database.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Dialect is what differs between databases. InsertOrders, Existing and Now use
// what they are given and its context; all other statements are the core's.
type Dialect interface {
	// Name is the adapter's package; error texts start with it.
	Name() string
	// SQL returns a statement in the database's words. It is written in those of
	// PostgreSQL, but for ? as each argument's place, and with the hints of MySQL:
	// FORCE INDEX and STRAIGHT_JOIN.
	SQL(text string) string
	// Own returns the statements that this database needs in other words, by name,
	// with the arguments of the core's.
	Own() map[string]string
	// Time returns the argument for a time column; NULL for a zero time.
	Time(t time.Time) any
	// Now reads the store's clock, in whole milliseconds.
	Now(ctx context.Context, q Queryer) (time.Time, error)
	// ReadOnce are the options of a transaction that sees one moment.
	ReadOnce() *sql.TxOptions

	// Existing returns the stored orders that have the order id, the claim or
	// the place of a claim of the batch. An order may be returned twice.
	Existing(ctx context.Context, tx *sql.Tx, batch *Batch) ([]sluice.Order, error)
	// InsertOrders inserts orders of one sale and returns how many: fewer if one meets
	// a unique key, and then the transaction is rolled back. It fails at any other
	// constraint. After is a position behind which they stand, and no others of the sale.
	InsertOrders(ctx context.Context, tx *sql.Tx, orders []NewOrder) (inserted int, after int64, err error)
	// List returns the one argument that a statement takes as a list of texts, and
	// Pairs the arguments that it takes as a table.
	List(ids []string) any
	Pairs(pairs []Pair) []any
	// Retry reports whether the transaction failed because of another one (a
	// deadlock, for instance), so that trying again at once helps.
	Retry(err error) bool
	// Busy reports whether the database failed for a reason that is not in the
	// statement and may pass: a lock that was not free in time, a full disk, a
	// shutdown. Errors of the network, and deadlines, need not be reported here.
	Busy(err error) bool
	// Refuses reports whether the database refused the statement for the values in
	// it: by a constraint, a trigger that raises an error, or a type. What may pass by
	// itself, rights, and tables that are not as they should be are none of it.
	Refuses(err error) bool
	// Full reports whether a busy database lacks room on its disk.
	Full(err error) bool
}

// Beginner is a dialect that has something to do when a transaction begins.
// Long says that it only reads, and that the caller may take its time.
type Beginner interface {
	Begin(ctx context.Context, tx *sql.Tx, long bool) error
}

// Confirmer is a dialect whose database may call a commit a success that is not where it must
// be. Confirming is called before a commit, and confirmed after it.
type Confirmer interface {
	Confirming() (confirmed func() error)
}

// FastInserter is a dialect that can store a batch of new claims in one
// statement. It reports false, with nothing stored, unless every claim was new
// and covered, and the sale's epoch is not beyond batch.Epoch.
type FastInserter interface {
	InsertFast(ctx context.Context, batch *Batch) (done bool, err error)
}

// Pair is a row's position, and the number of the event that it is.
type Pair struct{ Position, Event int64 }

// JSONTables is List and Pairs of a dialect whose database reads JSON as a table.
type JSONTables struct{}

// List is a JSON array of texts.
func (JSONTables) List(ids []string) any {
	return asJSON(append([]string{}, ids...))
}

// Pairs is one JSON array of pairs, each an array.
func (JSONTables) Pairs(pairs []Pair) []any {
	rows := make([][2]int64, len(pairs))
	for i, p := range pairs {
		rows[i] = [2]int64{p.Position, p.Event}
	}
	return []any{asJSON(rows)}
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers always are JSON
	}
	return string(text)
}

// statement is one of the SQL statements that the store runs. Each stands beside
// the methods that use it; what is said there of arguments names them in order.
type statement int

var statements []struct{ name, text string }

func newStatement(name, text string) statement {
	statements = append(statements, struct{ name, text string }{name, text})
	return statement(len(statements) - 1)
}

// Statements returns all statements in the words of a dialect, with their names.
// Only FindDue may be empty.
func Statements(d Dialect) iter.Seq2[string, string] {
	own := d.Own()
	return func(yield func(name, text string) bool) {
		for _, s := range statements {
			text, differs := own[s.name]
			if !differs {
				text = d.SQL(s.text)
			}
			if !yield(s.name, text) {
				return
			}
		}
	}
}

var hint = regexp.MustCompile(`\s+FORCE INDEX \([^)]*\)`)

// WithoutHints is a statement without those of MySQL.
func WithoutHints(text string) string {
	return strings.ReplaceAll(hint.ReplaceAllString(text, ""), "STRAIGHT_JOIN", "JOIN")
}

// insertInto is a statement that inserts one row of these columns.
func insertInto(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + Placeholders(strings.Count(columns, ",")+1)
}

// Placeholders are n arguments in parentheses.
func Placeholders(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// update is a statement that sets these columns, up to its WHERE.
func update(table, columns string) string {
	return "UPDATE " + table + " SET " + strings.ReplaceAll(columns, ",", " = ?,") + " = ?"
}
