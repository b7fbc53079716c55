//go:build !noconsole

package engine

import (
	"context"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/console"
	"github.com/sluicehq/sluice/internal/web"
)

// newConsole makes the console, which asks the API of this server. The build tag noconsole leaves it out.
func (e *Engine) newConsole() http.Handler {
	return console.New(console.Options{
		Base: e.cfg.BasePath, Admins: e.who.admins, Secret: e.adminKey + "\n" + e.secret,
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.server.ServeHTTP(w, r) }),
		Picture: func(ctx context.Context, sale sluice.SaleID, picture string) ([]byte, error) {
			return e.store.Picture(ctx, sale, picture, sluice.SmallPicture)
		},
		Style: web.Style(),
	})
}
