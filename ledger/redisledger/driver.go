package redisledger

import (
	"context"

	"github.com/sluicehq/sluice"
)

func init() {
	sluice.RegisterLedger(sluice.LedgerDriver{
		Kind: "redis", Schemes: []string{"redis", "rediss", "redis+sentinel", "redis+cluster"},
		MaxBatch: 1000, // decided in two or three milliseconds, for one fsync
		Open: func(ctx context.Context, url string, o sluice.LedgerOptions) (sluice.Ledger, error) {
			return Open(ctx, url, Options{Node: o.Node, WaitReplicas: o.WaitReplicas})
		},
		OpenReadOnly: func(ctx context.Context, url string) (sluice.ReadOnlyLedger, error) {
			return OpenReadOnly(ctx, url, Options{})
		},
		OpenReplica: func(url string) (sluice.LedgerReplica, error) { return NewReplica(url, Options{}) },
	})
}
