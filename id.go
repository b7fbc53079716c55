package sluice

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SaleID names a sale: 1 to 48 of a-z, 0-9, '-' and '_', starting with a
// letter or digit.
type SaleID string

// BuyerID names a buyer, as the shop's own login does (the token's "sub"): 1
// to 128 bytes of UTF-8 without control characters.
type BuyerID string

// Key names one attempt of a buyer (the Idempotency-Key header): 8 to 64 of
// A-Z, a-z, 0-9, '-' and '_'. Its scope is this buyer and this sale.
type Key string

// NewKey makes a key for a new attempt. Keep it until the attempt is decided, across restarts
// too if a lost reply must not cost an order.
func NewKey() Key {
	var b [18]byte
	_, _ = rand.Read(b[:]) // never fails
	return Key(base64.RawURLEncoding.EncodeToString(b[:]))
}

// OrderID names an order. It starts with its sale, so that any server knows
// which ledger to ask for an order that is not stored yet: "<sale>.<32 hex>".
type OrderID string

// ClaimID names a claim. Equal keys of two buyers are two claims.
type ClaimID struct {
	Sale  SaleID
	Buyer BuyerID
	Key   Key
}

const (
	maxSaleID  = 48
	maxBuyerID = 128
	minKey     = 8
	maxKey     = 64
)

// Order returns the id of an order of the sale, whose suffix, lower-case hex digits,
// is unique in it.
func (s SaleID) Order(suffix string) OrderID { return OrderID(string(s) + "." + suffix) }

// Sale returns the sale that the order id carries, or false when it is not the
// id of an order.
func (o OrderID) Sale() (SaleID, bool) {
	sale, suffix, found := strings.Cut(string(o), ".")
	if !found || len(suffix) != 32 || SaleID(sale).Validate() != nil {
		return "", false
	}
	for i := range len(suffix) {
		if c := suffix[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return SaleID(sale), true
}

// Validate says what is wrong with the id, and what would be right.
func (s SaleID) Validate() error {
	if len(s) == 0 || len(s) > maxSaleID {
		return fmt.Errorf("sale id %q: want 1 to %d of a-z, 0-9, '-' and '_'", shorten(string(s)), maxSaleID)
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '-' && c != '_') {
			return fmt.Errorf("sale id %q: want a-z, 0-9, '-' and '_', starting with a letter or digit", string(s))
		}
	}
	return nil
}

// Validate says what is wrong with the id, and what would be right.
func (b BuyerID) Validate() error {
	if len(b) == 0 || len(b) > maxBuyerID {
		return fmt.Errorf("buyer id of %d bytes: want 1 to %d", len(b), maxBuyerID)
	}
	if !utf8.ValidString(string(b)) {
		return fmt.Errorf("buyer id %q: want valid UTF-8", string(b))
	}
	if strings.IndexFunc(string(b), unicode.IsControl) >= 0 {
		return fmt.Errorf("buyer id %q: want no control characters", string(b))
	}
	return nil
}

// keyBytes says which bytes a key may have: a table, since every claim's key is
// looked at.
var keyBytes = func() (ok [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		ok[c] = true
	}
	return ok
}()

// Validate says what is wrong with the key, and what would be right.
func (k Key) Validate() error {
	if len(k) < minKey || len(k) > maxKey {
		return fmt.Errorf("key of %d characters: want %d to %d of A-Z, a-z, 0-9, '-' and '_'", len(k), minKey, maxKey)
	}
	for i := range len(k) {
		if !keyBytes[k[i]] {
			return fmt.Errorf("key %q: want %d to %d of A-Z, a-z, 0-9, '-' and '_'", string(k), minKey, maxKey)
		}
	}
	return nil
}

// shorten keeps an error message readable when the input is not.
func shorten(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
