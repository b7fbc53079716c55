package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
)

// Ledger is what the driver returns.
type Ledger = ledger

// OpenReadOnly opens as the driver does.
var OpenReadOnly = openReadOnly

// LedgerAt returns the store's ledger, with a clock of the test's own, or with nil the
// database's.
func (s *Store) LedgerAt(node string, now func() time.Time) (*Ledger, error) {
	return s.ledger(node, now)
}

// MigrationLock is the advisory lock of migrations.
const MigrationLock = migrationLock

// Connections is how many connections are in use.
func (l *Ledger) Connections() int32 { return l.pool.Stat().AcquiredConns() }

// Fresh decides claims in one round trip, or reports false.
func (l *Ledger) Fresh(ctx context.Context, id sluice.SaleID, claims []sluice.Claim,
) (decisions []sluice.Decision, done bool, err error) {
	m, d := l.toldOf(id), l.deciding(claims)
	err = l.on(ctx, id, ledgerTimeout, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		done, err = d.fresh(ctx, conn, id, m)
		if open := conn.Conn().PgConn().TxStatus() != 'I'; open {
			panic("a transaction is open")
		}
		return err
	})
	return d.decisions, done, err
}

// Turns is what sales can hold of a ledger's pool.
type Turns struct{ pool poolTurns }

func NewTurns() *Turns { return &Turns{newPoolTurns()} }

// FirstTurns is how many sales have a turn at a time.
const FirstTurns = firstTurns

// Take waits for a turn.
func (t *Turns) Take(ctx context.Context, sale sluice.SaleID) (done func(err *error), err error) {
	return t.pool.take(ctx, sale)
}

// Sales is how many are remembered.
func (t *Turns) Sales() int { return len(t.pool.sales) }
