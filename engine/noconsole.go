//go:build noconsole

package engine

import "net/http"

// newConsole makes nothing.
func (*Engine) newConsole() http.Handler { return nil }
