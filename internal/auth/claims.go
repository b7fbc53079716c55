package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	signed    map[string]string // what limits may be by
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
		default:
			c.sign(string(name), value)
		}
		if fault != nil {
			return fmt.Errorf(`the token's "%s" %w`, name, fault)
		}
		return nil
	})
	return c, described(err, "the token", "the token's claims")
}

// sign keeps a text or a whole number that a limit may be by. Anything else is for others.
func (c *claims) sign(name string, value []byte) {
	if len(value) > 6*sluice.MaxSigned+2 || !sluice.Limitable(name) { // each byte may be an escape
		return
	}
	text, err := parseText(value)
	if err != nil {
		if text = string(value); strings.Trim(text, "0123456789") != "" {
			return
		}
	}
	if c.signed == nil {
		c.signed = map[string]string{}
	}
	c.signed[name] = text
}

// check says what is wrong with what a token claims.
func (v *Verifier) check(c *claims) error {
	now := v.o.Now()
	switch {
	case c.expires.IsZero():
		return errors.New(`the token has no "exp"`)
	case !now.Before(c.expires.Add(v.o.Skew)):
		return ErrExpired
	case v.o.MaxLife > 0 && c.expires.After(now.Add(v.o.MaxLife+v.o.Skew)):
		return fmt.Errorf(`the token's "exp" lies more than %v ahead, which is not accepted here`, v.o.MaxLife)
	case now.Add(v.o.Skew).Before(c.notBefore):
		return ErrNotYet
	case v.o.Issuer != "" && c.issuer != v.o.Issuer:
		return errors.New(`the token's "iss" is not the issuer whose tokens are accepted here`)
	case v.o.Audience != "" && !slices.Contains(c.audience, v.o.Audience):
		return errors.New(`the token's "aud" does not name this shop`)
	case c.subject == "":
		return errors.New(`the token has no "sub"`)
	}
	buyer, err := v.BuyerID(sluice.BuyerID(c.subject))
	if err != nil {
		return fmt.Errorf(`the token's "sub": %w`, err)
	}
	c.subject = string(buyer)
	if err := Visible(buyer); err != nil {
		return fmt.Errorf(`the token's "sub" %w`, err)
	}
	return nil
}

// Visible refuses ids with characters that no person sees, and shows them escaped: two buyers whose
// ids differ by a zero-width space, say, look the same to every person. The domain lets them pass:
// such orders may be there already.
func Visible(buyer sluice.BuyerID) error {
	if !strings.ContainsFunc(string(buyer), invisible) {
		return nil
	}
	var shown strings.Builder // %q would leave a variation selector as it is
	for _, r := range strconv.Quote(string(buyer)) {
		if invisible(r) {
			shown.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			shown.WriteRune(r)
		}
	}
	return fmt.Errorf("%s has an invisible character (Unicode: category Cf or Default_Ignorable_Code_Point)", &shown)
}

// invisible reports whether a character is for software alone, or not shown where a font has
// nothing for it: a Hangul filler, say, or what picks a variant of the letter before.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
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
	case errors.Is(err, errMany):
		return fmt.Errorf("%s: more than %d of them", place, maxMembers)
	case errors.As(err, &twice):
		return fmt.Errorf("%s has %q twice", owner, shorten(string(twice)))
	}
	return err
}

var errNoJWT = errors.New("the token is not a JWT")

// The JSON of tokens is read here and not by encoding/json alone, which takes
// "SUB" for "sub", the last of two, and U+FFFD for whatever is no character:
// several buyers would be one.

var (
	errNoObject = errors.New("it is no JSON object")
	errNoUTF8   = errors.New("it is not valid UTF-8")
	errHalf     = errors.New("it has half a surrogate pair")
	errMany     = fmt.Errorf("it has more than %d members", maxMembers)
)

// maxMembers is how many claims, or members of a header, a token may have. Logins write some thirty.
const maxMembers = 256

// twiceError is the name of a member that is duplicated.
type twiceError string

func (e twiceError) Error() string { return strconv.Quote(string(e)) + " is duplicated" }

// eachMember calls see with each member of a JSON object in order: the name
// without its escapes, and the value as it is written. A duplicate name or
// invalid UTF-8 is an error, and so are more than maxMembers. The time grows with the length.
func eachMember(text []byte, see func(name, value []byte) error) error {
	if !utf8.Valid(text) {
		return errNoUTF8
	}
	if !json.Valid(text) {
		return errNoObject
	}
	escapes := bytes.IndexByte(text, '\\') >= 0
	if escapes && !wholePairs(text) {
		return errHalf
	}
	rest := space(text)
	if rest[0] != '{' {
		return errNoObject
	}
	var few [16][]byte
	names := few[:0]
	for rest = space(rest[1:]); rest[0] != '}'; {
		if len(names) == maxMembers {
			return errMany
		}
		n := valueEnd(rest)
		name := rest[1 : n-1]
		if escapes && bytes.IndexByte(name, '\\') >= 0 {
			var plain string
			if err := json.Unmarshal(rest[:n], &plain); err != nil {
				return errNoObject
			}
			name = []byte(plain)
		}
		rest = space(space(rest[n:])[1:]) // the colon
		n = valueEnd(rest)
		if err := see(name, rest[:n]); err != nil {
			return err
		}
		names = append(names, name)
		if rest = space(rest[n:]); rest[0] == ',' {
			rest = space(rest[1:])
		}
	}
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return twiceError(names[i])
		}
	}
	return nil
}

func space(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n' || text[0] == '\r' || text[0] == '\t') {
		text = text[1:]
	}
	return text
}

// valueEnd returns the length of the value that a valid JSON text begins with.
func valueEnd(text []byte) int {
	depth, i := 0, 0
	for {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default: // a number, true, false or null; between values: spaces, commas and colons
			for i++; i < len(text) && strings.IndexByte("\"{}[], \t\r\n", text[i]) < 0; i++ {
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// wholePairs reports whether every escaped surrogate of a valid JSON text has
// its other half.
func wholePairs(text []byte) bool {
	high := false // what is before i is the first half
	for i := 0; i < len(text); {
		unit := uint64(0)
		n := 1
		if text[i] == '\\' {
			n = 2
			if text[i+1] == 'u' {
				n = 6
				unit, _ = strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
			}
		}
		if low := unit >= 0xdc00 && unit < 0xe000; low != high {
			return false
		}
		high = unit >= 0xd800 && unit < 0xdc00
		i += n
	}
	return true // a text does not end within a string
}

// The faults of values go after the name in a sentence.
var (
	errNoText   = errors.New("is not a text")
	errNoTexts  = errors.New("is not a list of texts")
	errNoNumber = errors.New("is not a number: want seconds since 1970, like 1794398400")
	errTooLarge = errors.New("is beyond 64 bits: want seconds since 1970, like 1794398400")
)

func parseText(value []byte) (string, error) {
	switch {
	case value[0] == 'n': // null
		return "", nil
	case value[0] != '"':
		return "", errNoText
	case bytes.IndexByte(value, '\\') < 0:
		return string(value[1 : len(value)-1]), nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err
}

// parseTexts reads a list of texts, or, if that will do, a single one.
func parseTexts(value []byte, single bool) ([]string, error) {
	fault := errNoTexts
	if single {
		fault = errors.New("is not a text or a list of texts")
		if value[0] == '"' {
			text, err := parseText(value)
			return []string{text}, err
		}
	}
	var list []*string // nil: a null
	if json.Unmarshal(value, &list) != nil || slices.Contains(list, nil) {
		return nil, fault
	}
	var texts []string
	for _, text := range list {
		texts = append(texts, *text)
	}
	return texts, nil
}

// farthest bounds times in seconds, so that all arithmetic with them is right:
// what is later or earlier is as good as this.
const farthest = 1 << 60

// parseTime reads seconds since 1970. A fraction is cut off.
func parseTime(value []byte) (time.Time, error) {
	switch {
	case value[0] == 'n': // null
		return time.Time{}, nil
	case value[0] != '-' && (value[0] < '0' || value[0] > '9'):
		return time.Time{}, errNoNumber
	}
	seconds, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil || math.Abs(f) >= 1<<63 {
			return time.Time{}, errTooLarge
		}
		seconds = int64(f)
	}
	return time.Unix(max(-farthest, min(farthest, seconds)), 0), nil
}
