package redisledger

import (
	"context"

	"github.com/sluicehq/sluice/internal/port"
)

func init() {
	port.RegisterLedger(port.LedgerDriver{
		Kind: "redis", Schemes: []string{"redis", "rediss", "redis+sentinel", "redis+cluster"},
		MaxBatch: 1000, // decided in two or three milliseconds, for one fsync
		Open: func(ctx context.Context, url string, o port.LedgerOptions) (port.Ledger, error) {
			return Open(ctx, url, Options{Node: o.Node, WaitReplicas: o.WaitReplicas})
		},
		OpenReadOnly: func(ctx context.Context, url string) (port.ReadOnlyLedger, error) {
			return openReadOnly(ctx, url, Options{})
		},
		OpenReplica: func(url string) (port.LedgerReplica, error) { return newReplica(url, Options{}) },
	})
}
