//go:build !noconsole

package engine

import (
	"net/http"

	"github.com/sluicehq/sluice/internal/console"
	"github.com/sluicehq/sluice/internal/web"
)

// newConsole makes the console, which asks the API of this server. The build tag noconsole leaves it out.
func (e *Engine) newConsole() http.Handler {
	return console.New(console.Options{
		Base: e.cfg.BasePath, Admins: e.who.admins, Secret: e.adminKey + "\n" + e.secret,
		API:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.server.ServeHTTP(w, r) }),
		Style: web.Style(),
	})
}
