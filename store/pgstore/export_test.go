package pgstore

import "time"

// LedgerAt is Ledger with a clock of the test's own.
func (s *Store) LedgerAt(node string, now func() time.Time) (*Ledger, error) {
	return s.ledger(node, now)
}

// MigrationLock is the advisory lock of migrations.
const MigrationLock = migrationLock

// Connections is how many connections are in use.
func (l *Ledger) Connections() int32 { return l.pool.Stat().AcquiredConns() }
