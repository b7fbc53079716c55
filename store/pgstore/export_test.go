package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
)

// LedgerAt is Ledger with a clock of the test's own.
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
	m, d := l.markOf(id), l.deciding(claims)
	err = l.on(ctx, id, ledgerTimeout, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		done, err = d.fresh(ctx, conn, id, m)
		if open := conn.Conn().PgConn().TxStatus() != 'I'; open {
			panic("a transaction is open")
		}
		return err
	})
	return d.decisions, done, err
}
