package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// session is what every transaction of the store can rely on: that it waits for
// a lock for seconds at most, and that the database ends it when its server is
// frozen or gone. Settings in the URL stay as they are.
//
// A pooler such as PgBouncer, which gives each transaction another connection,
// keeps neither settings nor prepared statements. Behind one, statements are sent
// unprepared, and each transaction sets for itself.
type session struct {
	pooled atomic.Bool // there is a pooler between us and the database
	set    string      // for a connection, if it leads to the database itself
	local  string      // for a transaction
	long   string      // for one that may take its time

	brokenOff atomic.Int64 // commits whose wait for a synchronous standby was broken off
}

type setting struct{ name, value string }

const idleSetting = "idle_in_transaction_session_timeout"

// limits: a row is locked for milliseconds, the longest statement reads all
// orders of a sale, and while orders' units are given to the ledger a transaction
// is idle for some seconds. Where the database is the ledger, one that locks a sale
// may be idle for hungAfter only.
var limits = []setting{
	{"lock_timeout", "3s"},
	{"statement_timeout", "60s"},
	{idleSetting, "10s"},
	{"default_transaction_isolation", "read committed"}, // what is read after a lock must be new
	{"client_min_messages", "warning"},                  // session.noticed
	{"tcp_keepalives_idle", "3"},                        // rows of a server that is cut off are free within seconds
	{"tcp_keepalives_interval", "1"},
	{"tcp_keepalives_count", "3"},
}

// longIdle is for a transaction that only reads, and whose reader may be busy
// with what it has read.
const longIdle = "2min"

func newSession(config *pgx.ConnConfig, readOnly bool) *session {
	var set, local, long []setting
	for _, l := range limits {
		if _, given := config.RuntimeParams[l.name]; given {
			continue
		}
		set = append(set, l)
		// These belong to the connection, which is the pooler's.
		if !strings.HasPrefix(l.name, "tcp_") && !strings.HasPrefix(l.name, "default_") {
			local = append(local, l)
		}
		if l.name == idleSetting {
			long = append(long, setting{l.name, longIdle})
		}
	}
	if readOnly {
		set = append(set, setting{"default_transaction_read_only", "on"})
		local = append(local, setting{"transaction_read_only", "on"})
	}
	return &session{
		set: "SELECT pg_backend_pid() = %[1]d, CASE WHEN pg_backend_pid() = %[1]d THEN concat(" + calls(set, false) + ") END",
		// One row each, so that nothing is to be read but its end.
		local: "SELECT " + calls(local, true),
		long:  "SELECT " + calls(long, true),
	}
}

func calls(settings []setting, local bool) string {
	all := []string{"''"}
	for _, s := range settings {
		all = append(all, fmt.Sprintf("set_config('%s', '%s', %t)", s.name, s.value, local))
	}
	return strings.Join(all, ", ")
}

// errPooler: the connection leads to a pooler, as has just been noticed. The
// next one is made as that needs it.
var errPooler = errors.New("there is a connection pooler before the database")

// beforeConnect is called by pgxpool.
func (s *session) beforeConnect(_ context.Context, config *pgx.ConnConfig) error {
	if s.pooled.Load() {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return nil
}

// afterConnect is called by pgxpool. It notices a pooler, which invents the
// number of the database's process.
func (s *session) afterConnect(ctx context.Context, conn *pgx.Conn) error {
	if s.pooled.Load() {
		return nil
	}
	results, err := conn.PgConn().Exec(ctx, fmt.Sprintf(s.set, conn.PgConn().PID())).ReadAll()
	if err != nil {
		return err
	}
	if string(results[0].Rows[0][0]) != "t" {
		s.pooled.Store(true)
		return errPooler
	}
	return nil
}

// errUnconfirmed: PostgreSQL reports a commit whose wait for a synchronous standby was broken
// off as a success, with a warning.
var errUnconfirmed = errors.New("committed, but the wait for the synchronous standby was broken off")

// noticed is called by pgx. The routine has the same name in every language.
func (s *session) noticed(_ *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.Routine == "SyncRepWaitForLSN" {
		s.brokenOff.Add(1)
	}
}

// Confirming implements sqlcore.Confirmer. A commit of another connection that was broken off
// meanwhile makes it fail as well: it is tried again.
func (s *session) Confirming() (confirmed func() error) {
	before := s.brokenOff.Load()
	return func() error {
		if s.brokenOff.Load() != before {
			return errUnconfirmed
		}
		return nil
	}
}

// commit sends the last statements of a transaction.
func (s *session) commit(ctx context.Context, conn *pgxpool.Conn, last *pgx.Batch) error {
	confirmed := s.Confirming()
	var end pgconn.CommandTag
	last.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		end = tag
		return nil
	})
	err := conn.SendBatch(ctx, last).Close()
	if err == nil && end.String() != "COMMIT" {
		err = fmt.Errorf("the transaction ended with %s", end)
	}
	return cmp.Or(err, confirmed())
}

// Begin implements sqlcore.Beginner.
func (s *session) Begin(ctx context.Context, tx *sql.Tx, long bool) error {
	var statements []string
	if s.pooled.Load() {
		statements = append(statements, s.local)
	}
	if long {
		statements = append(statements, s.long)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// again calls do once more if that noticed a pooler.
func again(do func() error) error {
	err := do()
	if errors.Is(err, errPooler) {
		err = do()
	}
	return err
}
