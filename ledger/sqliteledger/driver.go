package sqliteledger

import (
	"context"

	"github.com/sluicehq/sluice/internal/port"
)

func init() {
	port.RegisterLedger(port.LedgerDriver{
		Kind: "sqlite", Schemes: []string{"sqlite"}, Own: true,
		MaxBatch: 2000, // an fsync is worth more here than with a server
		Open: func(ctx context.Context, url string, o port.LedgerOptions) (port.Ledger, error) {
			return Open(ctx, url[len("sqlite:"):], Options{Node: o.Node})
		},
		OpenReadOnly: func(ctx context.Context, url string) (port.ReadOnlyLedger, error) {
			return openReadOnly(ctx, url[len("sqlite:"):])
		},
	})
}
