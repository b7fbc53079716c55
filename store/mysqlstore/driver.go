package mysqlstore

import (
	"context"

	"github.com/sluicehq/sluice"
)

func init() {
	sluice.RegisterStore(sluice.StoreDriver{
		Kind: "mysql", Schemes: []string{"mysql"},
		Open: func(ctx context.Context, url string, lazy bool) (sluice.Store, error) {
			return Open(ctx, url, Options{Lazy: lazy})
		},
		OpenReadOnly: func(ctx context.Context, url string) (sluice.ReadOnlyStore, error) {
			return OpenReadOnly(ctx, url)
		},
	})
}
