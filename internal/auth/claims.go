package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/sluicehq/sluice"
)

// claims are what is read of a token's payload. Absent ones, and those that
// are null, are zero.
type claims struct {
	subject   string
	expires   time.Time
	notBefore time.Time
	issued    time.Time // as it says; it makes no token good or bad
	issuer    string
	audience  []string
	sales     []string
}

// parseClaims reads a payload. Names are exact, and those that are not known
// may hold anything.
func parseClaims(payload []byte) (c claims, err error) {
	err = eachMember(payload, func(name, value []byte) error {
		var fault error
		switch string(name) {
		case "sub":
			c.subject, fault = parseText(value)
		case "exp":
			c.expires, fault = parseTime(value)
		case "nbf":
			c.notBefore, fault = parseTime(value)
		case "iat":
			c.issued, fault = parseTime(value)
		case "iss":
			c.issuer, fault = parseText(value)
		case "jti":
			_, fault = parseText(value)
		case "aud":
			c.audience, fault = parseTexts(value, true)
		case "sluice_sales":
			c.sales, fault = parseTexts(value, false)
		}
		if fault != nil {
			return fmt.Errorf(`the token's "%s" %w`, name, fault)
		}
		return nil
	})
	return c, described(err, "the token", "the token's claims")
}

// check says what is wrong with what a token claims.
func (v *Verifier) check(c *claims) error {
	now := v.o.Now()
	switch {
	case c.expires.IsZero():
		return errors.New(`the token has no "exp"`)
	case !now.Before(c.expires.Add(v.o.Skew)):
		return errors.New("the token has expired")
	case v.o.MaxLife > 0 && c.expires.After(now.Add(v.o.MaxLife+v.o.Skew)):
		return fmt.Errorf(`the token's "exp" lies more than %v ahead, which is not accepted here`, v.o.MaxLife)
	case now.Add(v.o.Skew).Before(c.notBefore):
		return errors.New("the token is not valid yet")
	case v.o.Issuer != "" && c.issuer != v.o.Issuer:
		return errors.New(`the token's "iss" is not the issuer whose tokens are accepted here`)
	case v.o.Audience != "" && !slices.Contains(c.audience, v.o.Audience):
		return errors.New(`the token's "aud" does not name this shop`)
	case c.subject == "":
		return errors.New(`the token has no "sub"`)
	}
	if err := sluice.BuyerID(c.subject).Validate(); err != nil {
		return fmt.Errorf(`the token's "sub": %w`, err)
	}
	// Two buyers whose ids differ by a zero-width space, say, look the same to
	// every person. The domain lets them pass: such orders may be there already.
	if strings.ContainsFunc(c.subject, func(r rune) bool { return unicode.Is(unicode.Cf, r) }) {
		return errors.New(`the token's "sub" has an invisible character (Unicode category Cf)`)
	}
	return nil
}

// header is what is read of a token's JOSE header.
type header struct {
	alg, kid string
	badKid   bool // it is something else than the name of a key
	crit     bool // there is one, whatever it says
}

func parseHeader(text []byte) (h header, err error) {
	err = eachMember(text, func(name, value []byte) error {
		switch string(name) {
		case "alg":
			h.alg, _ = parseText(value) // what is no text is no algorithm
		case "kid":
			kid, fault := parseText(value)
			h.kid, h.badKid = kid, fault != nil || len(kid) > maxKeyID
		case "crit":
			h.crit = true
		}
		return nil
	})
	return h, described(err, "the token's header", "the token's header")
}

// described makes an error of eachMember one about a token.
func described(err error, owner, place string) error {
	var twice twiceError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoObject):
		return errNoJWT
	case errors.Is(err, errNoUTF8):
		return fmt.Errorf("%s: not valid UTF-8", place)
	case errors.Is(err, errHalf):
		return fmt.Errorf(`%s: a \u escape stands for half a character: want both surrogates`, place)
	case errors.As(err, &twice):
		return fmt.Errorf("%s has %q twice", owner, shorten(string(twice)))
	}
	return err
}

var errNoJWT = errors.New("the token is not a JWT")
