package sqlitestore

import (
	"context"

	"github.com/sluicehq/sluice/internal/port"
)

func init() {
	port.RegisterStore(port.StoreDriver{
		Kind: "sqlite", Schemes: []string{"sqlite"}, Own: true,
		MaxOrders: 4000, // what costs is pages, and of more orders in one transaction more share theirs
		Open: func(ctx context.Context, url string, _ bool) (port.Store, error) {
			return Open(ctx, url[len("sqlite:"):], Options{})
		},
		OpenReadOnly: func(ctx context.Context, url string) (port.ReadOnlyStore, error) {
			return openReadOnly(ctx, url[len("sqlite:"):])
		},
	})
}
