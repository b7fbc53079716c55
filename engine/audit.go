package engine

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/mysqlstore"
	"github.com/sluicehq/sluice/store/pgstore"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// Auditor reads a ledger and a store, and changes neither. It needs no lock, so
// it works beside running servers, or after all of them have died.
type Auditor struct {
	ledger auditLedger
	store  auditStore
}

type auditLedger interface {
	audit.Ledger
	Close() error
}

type auditStore interface {
	audit.Store
	Close() error
}

// OpenAudit opens the ledger and the store that the configuration names, for
// reading only.
func OpenAudit(ctx context.Context, cfg Config) (*Auditor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	ledger, err := openAuditLedger(ctx, cfg.Ledger)
	if err != nil {
		return nil, err
	}
	store, err := openAuditStore(ctx, cfg.Store)
	if err != nil {
		return nil, errors.Join(err, ledger.Close())
	}
	return &Auditor{ledger: ledger, store: store}, nil
}

func openAuditLedger(ctx context.Context, url string) (auditLedger, error) {
	if path, embedded := sqlitePath(url); embedded {
		return sqliteledger.OpenReadOnly(ctx, path)
	}
	return redisledger.OpenReadOnly(ctx, url, redisledger.Options{})
}

func openAuditStore(ctx context.Context, url string) (auditStore, error) {
	if path, embedded := sqlitePath(url); embedded {
		return sqlitestore.OpenReadOnly(ctx, path)
	}
	if isMySQL(url) {
		return mysqlstore.OpenReadOnly(ctx, url)
	}
	return pgstore.OpenReadOnly(ctx, url)
}

// Audit proves one sale.
func (a *Auditor) Audit(ctx context.Context, sale sluice.SaleID) (sluice.AuditReport, error) {
	return audit.Run(ctx, a.ledger, a.store, sale)
}

// AuditAll proves every sale, one report each.
func (a *Auditor) AuditAll(ctx context.Context) ([]sluice.AuditReport, error) {
	return audit.RunAll(ctx, a.ledger, a.store)
}

// Close ends the reading.
func (a *Auditor) Close() error { return errors.Join(a.ledger.Close(), a.store.Close()) }
