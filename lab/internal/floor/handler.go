// Package floor has programs that do without Sluice only what no implementation can do
// without: what Sluice is measured against. They decide nothing.
package floor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Handler is the floor of a server that answers claims: it decodes the body and verifies the
// token with the secret, unless that is empty or it remembers the token, before it answers.
// What is no claim is answered at once.
func Handler(answer http.Handler, secret string, remembers bool) http.Handler {
	var known sync.Map // tokens that were verified
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			answer.ServeHTTP(w, r)
			return
		}
		var order struct{ Quantity int }
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err == nil {
			err = json.Unmarshal(body, &order)
		}
		token := r.Header.Get("Authorization")
		dot := strings.LastIndexByte(token, '.')
		if err != nil || order.Quantity != 1 || dot < len("Bearer ") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if _, verified := known.Load(token); secret != "" && !verified {
			mac := hmac.New(sha256.New, []byte(secret))
			_, _ = io.WriteString(mac, token[len("Bearer "):dot])
			if given, err := base64.RawURLEncoding.DecodeString(token[dot+1:]); err != nil || !hmac.Equal(given, mac.Sum(nil)) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if remembers {
				known.Store(strings.Clone(token), nil)
			}
		}
		answer.ServeHTTP(w, r)
	})
}
