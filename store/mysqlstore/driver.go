package mysqlstore

import (
	"context"

	"github.com/sluicehq/sluice/internal/port"
)

func init() {
	port.RegisterStore(port.StoreDriver{
		Kind: "mysql", Schemes: []string{"mysql"},
		Open: func(ctx context.Context, url string, lazy bool) (port.Store, error) {
			return Open(ctx, url, Options{Lazy: lazy})
		},
		OpenReadOnly: func(ctx context.Context, url string) (port.ReadOnlyStore, error) {
			return openReadOnly(ctx, url)
		},
	})
}
