package pgstore

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
)

func init() {
	sluice.RegisterStore(sluice.StoreDriver{
		Kind: "postgres", Schemes: []string{"postgres", "postgresql"},
		Open: func(ctx context.Context, url string, lazy bool) (sluice.Store, error) {
			return Open(ctx, url, Options{Lazy: lazy})
		},
		OpenReadOnly: func(ctx context.Context, url string) (sluice.ReadOnlyStore, error) {
			return OpenReadOnly(ctx, url)
		},
		Ledger: func(store sluice.ReadOnlyStore, node string) (sluice.Ledger, error) {
			s, ok := sluice.As[*Store](store)
			if !ok {
				return nil, fmt.Errorf("pgstore: a %T wraps no store of this package", store)
			}
			return s.Ledger(node)
		},
	})
}
