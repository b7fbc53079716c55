package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluicehq/sluice/identity"
	"github.com/sluicehq/sluice/internal/metrics"
)

// AdminKey is one named key of an admin, with a role.
type AdminKey = identity.AdminKey

// The roles of admins. Each may do what those before it may.
const (
	Viewer   = identity.Viewer   // reads everything
	Operator = identity.Operator // runs sales and orders
	Owner    = identity.Owner    // everything
)

// who is how an engine knows who asks.
type who struct {
	admins   *identity.Admins
	verifier *identity.Verifier
	keys     *identity.Keys // nil without a JWKS
}

// rereadFile is how often a JWKS file is read again.
const rereadFile = 10 * time.Second

// openIdentity reads the admins' keys and those of buyers' tokens. A file of
// keys must be good. A server that does not answer is only logged: the tokens
// that it answers for are refused as unavailable until it does.
func (e *Engine) openIdentity(ctx context.Context) (err error) {
	e.warnOfShortKeys()
	if e.who.admins, err = identity.NewAdmins(e.adminKey, e.cfg.AdminKeys); err != nil {
		return err
	}
	if location := e.cfg.BuyerJWKS; location != "" {
		remote := strings.Contains(location, "://")
		o := identity.KeysOptions{Location: location, Log: e.cfg.Log}
		if !remote {
			o.Refresh = rereadFile
		}
		if e.who.keys, err = identity.NewKeys(o); err != nil {
			return err
		}
		if err := e.who.keys.Refresh(ctx); err != nil && (!remote || ctx.Err() != nil) {
			return err
		}
	}
	e.who.verifier = identity.NewVerifier(identity.Options{
		Secret: []byte(e.secret), Keys: e.who.keys, Issuer: e.cfg.BuyerIssuer, Audience: e.cfg.BuyerAudience, Skew: e.cfg.ClockSkew,
	})
	return nil
}

// openSecret returns the secret of HS256 tokens. With a JWKS there is one only
// if it is given.
func (e *Engine) openSecret() (err error) {
	if e.cfg.BuyerSecret == "" && e.cfg.BuyerJWKS != "" {
		return nil
	}
	e.secret, err = e.folder.secret(e.cfg.BuyerSecret, "buyer.secret")
	if err == nil && e.secret == "" {
		err = errors.New("engine: the buyers' secret is empty")
	}
	return err
}

// warnOfShortKeys logs the keys that can be guessed, given or kept in the data
// folder. They are no errors: these two are part of the outside (SLUICE_ADMIN_KEY,
// SLUICE_BUYER_SECRET), and a shop's tests and first tries give short ones.
func (e *Engine) warnOfShortKeys() {
	if len(e.adminKey) < identity.MinAdminKey {
		e.cfg.Log.Warn("admin_key is short: whoever guesses it owns every sale; want at least 16 characters, random ones", "from", whence(e.cfg.AdminKey, "admin.key"))
	}
	if e.secret != "" && len(e.secret) < identity.MinSecret {
		e.cfg.Log.Warn("buyer_secret is short: whoever guesses it can be any buyer; HS256 wants at least 32 bytes, random ones", "from", whence(e.cfg.BuyerSecret, "buyer.secret"))
	}
}

// whence says where a key comes from, never what it is.
func whence(given, file string) string {
	if given != "" {
		return "the settings"
	}
	return file + " in the data folder"
}

// run reads the keys of buyers' tokens again and again.
func (w *who) run(ctx context.Context) {
	if w.keys != nil {
		w.keys.Run(ctx)
	}
}

// measure tells the metrics of the keys.
func (w *who) measure(counts *metrics.Metrics) {
	if w.keys != nil {
		counts.TokenKeys(w.keys.Status)
	}
}

func (w *who) close() {
	if w.keys != nil {
		w.keys.Close()
	}
}
