package pgstore

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice/internal/port"
)

func init() {
	port.RegisterStore(port.StoreDriver{
		Kind: "postgres", Schemes: []string{"postgres", "postgresql"},
		Open: func(ctx context.Context, url string, lazy bool) (port.Store, error) {
			return Open(ctx, url, Options{Lazy: lazy})
		},
		OpenReadOnly: func(ctx context.Context, url string) (port.ReadOnlyStore, error) {
			return openReadOnly(ctx, url)
		},
		Ledger: func(store port.ReadOnlyStore, node string) (port.Ledger, error) {
			s, ok := port.As[*Store](store)
			if !ok {
				return nil, fmt.Errorf("pgstore: a %T wraps no store of this package", store)
			}
			return s.ledger(node, nil)
		},
	})
}
