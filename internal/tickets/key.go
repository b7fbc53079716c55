package tickets

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Keys makes and checks tickets and challenges. It signs with the
// current key, and accepts signatures of the previous key as well, so that
// a secret can be replaced while tickets are out. It is safe for concurrent use.
type Keys struct {
	known [2]*key // the current one first; the previous one may be nil
}

type key struct {
	id  string // names the key in what it has signed: 8 hex digits, which tell nothing of it
	mac []byte
}

// NewKeys derives the keys from secrets that all servers of a shop share. The
// previous secret may be empty.
func NewKeys(secret, previous string) (*Keys, error) {
	if secret == "" {
		return nil, errors.New("tickets: the secret is empty")
	}
	k := &Keys{}
	for i, s := range []string{secret, previous} {
		if s == "" {
			continue
		}
		mac, err := hkdf.Key(sha256.New, []byte(s), nil, "sluice tickets v1", sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("tickets: %w", err)
		}
		name, err := hkdf.Key(sha256.New, []byte(s), nil, "sluice tickets v1, the key's name", idDigits/2)
		if err != nil {
			return nil, fmt.Errorf("tickets: %w", err)
		}
		k.known[i] = &key{id: hex.EncodeToString(name), mac: mac}
	}
	return k, nil
}

const (
	idDigits   = 8
	timeDigits = 11 // Unix milliseconds in base 36 have 8 or 9 digits until the year 5188
	macLength  = 43 // 32 bytes in base64
)

// Errors of checking. ErrExpired is a ticket or challenge that was good; every
// other reason is ErrForged, so that a forger gets no hint.
var (
	ErrForged  = errors.New("it is not one of ours, or is another buyer's or another sale's")
	ErrExpired = errors.New("it has expired")
)

// purpose keeps a challenge from passing for a ticket.
type purpose string

const (
	forTicket    purpose = "t1"
	forChallenge purpose = "c1"
)

// sign returns text, which starts with its purpose, with the MAC appended.
func (k *key) sign(text string, sale sluice.SaleID, buyer sluice.BuyerID) string {
	sum := k.sum(text, sale, buyer)
	return text + "." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// sum covers the text and who and what it is for, each with its length, so
// that no two of them can be read as another three.
func (k *key) sum(text string, sale sluice.SaleID, buyer sluice.BuyerID) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, k.mac)
	var length [8]byte
	for _, part := range []string{text, string(sale), string(buyer)} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	mac.Sum(sum[:0])
	return sum
}

// open checks a signed text: purpose, key and MAC. It returns the fields
// between the key's name and the MAC.
func (k *Keys) open(signed string, p purpose, fields int, sale sluice.SaleID, buyer sluice.BuyerID) (
	of []string, expires time.Time, err error,
) {
	if len(signed) > maxSigned {
		return nil, expires, ErrForged
	}
	part := strings.Split(signed, ".")
	if len(part) != fields+3 || part[0] != string(p) || len(part[len(part)-1]) != macLength {
		return nil, expires, ErrForged
	}
	have, err := base64.RawURLEncoding.Strict().DecodeString(part[len(part)-1])
	if err != nil {
		return nil, expires, ErrForged
	}
	for _, key := range k.known {
		if key == nil || key.id != part[1] {
			continue
		}
		if sum := key.sum(signed[:len(signed)-macLength-1], sale, buyer); hmac.Equal(have, sum[:]) {
			expires, err = expiry(part[2])
			return part[2 : len(part)-1], expires, err
		}
	}
	return nil, expires, ErrForged
}

// maxSigned bounds what is looked at, in bytes.
const maxSigned = 160

// expiry returns the time of a field that has been authenticated.
func expiry(field string) (time.Time, error) {
	ms, ok := parseTime(field)
	if !ok {
		return time.Time{}, ErrForged // ours are never so
	}
	return time.UnixMilli(ms).UTC(), nil
}
