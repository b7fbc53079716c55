package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
)

// The signing algorithms of tokens. Each goes with one type of key: a token
// never chooses what a key is used for.
const (
	hs256 = "HS256" // the secret shared with the shop
	rs256 = "RS256" // RSA of 2048 to 8192 bits
	es256 = "ES256" // ECDSA on P-256
	edDSA = "EdDSA" // Ed25519
)

// Bounds of a JWKS document.
const (
	maxKeySetBytes = 512 << 10
	maxKeys        = 200
)

// publicKey is one key that may verify tokens of one algorithm.
type publicKey struct {
	id, alg string
	key     crypto.PublicKey
	// gone: the key is in no set any more, and what it has signed is void.
	gone atomic.Bool
}

// keySet is an immutable JWKS.
type keySet struct {
	keys map[keyName]*publicKey
	only map[string]*publicKey // by algorithm, where there is just one: for tokens without kid
	// names holds every kid, of any algorithm.
	names map[string]bool
	// passedOver says which keys cannot be used, and why, but for those to encrypt.
	passedOver []string
}

type keyName struct{ id, alg string }

// parseKeySet reads a JWKS document. Keys that are for something else (to
// encrypt, symmetric, other algorithms) are passed over; skipped says which,
// and why. A document that leaves no key to use, or that has two of one name,
// is an error.
func parseKeySet(document []byte) (set *keySet, skipped []string, err error) {
	if len(document) > maxKeySetBytes {
		return nil, nil, fmt.Errorf("the document is larger than %d bytes", maxKeySetBytes)
	}
	var outer struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &outer); err != nil {
		return nil, nil, fmt.Errorf(`want a JSON object {"keys": [...]}: %w`, err)
	}
	if outer.Keys == nil {
		return nil, nil, errors.New(`want a JSON object {"keys": [...]}; it has no keys`)
	}
	if n := len(*outer.Keys); n > maxKeys {
		return nil, nil, fmt.Errorf("%d keys: want at most %d", n, maxKeys)
	}
	set = &keySet{keys: map[keyName]*publicKey{}, only: map[string]*publicKey{}, names: map[string]bool{}}
	for i, raw := range *outer.Keys {
		id, key, err := parseKey(raw)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("key %d (kid %s): %v", i+1, id, err))
			if !errors.Is(err, errNotToSign) {
				set.passedOver = append(set.passedOver, skipped[len(skipped)-1])
			}
			continue
		}
		name := keyName{key.id, key.alg}
		if twin := set.keys[name]; twin != nil && !same(twin.key, key.key) {
			return nil, skipped, fmt.Errorf("two keys for %s have the kid %q", key.alg, key.id)
		}
		set.keys[name], set.names[key.id] = key, true
	}
	if len(set.keys) == 0 {
		if len(skipped) > 0 {
			return nil, skipped, fmt.Errorf("no key that can be used: %s", strings.Join(skipped[:min(len(skipped), 3)], "; "))
		}
		return nil, nil, errors.New("no keys in it")
	}
	set.index()
	return set, skipped, nil
}

// index finds the keys that a token need not name.
func (s *keySet) index() {
	clear(s.only)
	seen := map[string]int{}
	for name, key := range s.keys {
		seen[name.alg]++
		s.only[name.alg] = key
	}
	for alg, n := range seen {
		if n > 1 {
			delete(s.only, alg)
		}
	}
}

// maxKeyID bounds a kid, in bytes.
const maxKeyID = 512

// errNotToSign: a key is to encrypt, which leaves nothing to wonder about.
var errNotToSign = errors.New("a key to encrypt, not to sign")

// encrypting are the key_ops of such keys (RFC 7517, 4.3).
var encrypting = []string{"encrypt", "decrypt", "wrapKey", "unwrapKey", "deriveKey", "deriveBits"}

// members are what a public key is made of. Whatever stands beside them is not read: certificates (x5c, x5u, x5t)
// that go-jose cannot parse, or that are another key's, would make it refuse a good key.
var members = []string{"kty", "kid", "use", "key_ops", "alg", "crv", "x", "y", "n", "e"}

// parseKey returns a key, or why it cannot be used; id is its kid as written, short enough to be shown.
func parseKey(raw json.RawMessage) (id string, key *publicKey, err error) {
	id = "none"
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return id, nil, errors.New("it is no JSON object")
	}
	known := map[string]json.RawMessage{}
	for _, name := range members {
		if value, ok := fields[name]; ok {
			known[name] = value
		}
	}
	if kid, ok := known["kid"]; ok {
		id = shorten(string(kid))
	}
	// Symmetric and private keys have no place in a document that is public.
	if fields["d"] != nil || fields["k"] != nil {
		return id, nil, errors.New("it holds a secret; want public keys only")
	}
	text, err := json.Marshal(known)
	if err != nil {
		return id, nil, err
	}
	key, err = parsePublic(text)
	return id, key, err
}

func parsePublic(text []byte) (*publicKey, error) {
	var purpose struct {
		Use string
		Ops *[]string `json:"key_ops"`
	}
	switch err := json.Unmarshal(text, &purpose); {
	case err != nil:
		return nil, errors.New("its use is no text, or its key_ops are no list of texts")
	case purpose.Use == "enc":
		return nil, fmt.Errorf("its use is %q: %w", purpose.Use, errNotToSign)
	case purpose.Use != "" && purpose.Use != "sig":
		return nil, fmt.Errorf("its use is %q: want \"sig\", or none", shorten(purpose.Use))
	case purpose.Ops != nil && !slices.Contains(*purpose.Ops, "verify"):
		ops := shorten(fmt.Sprintf("%q", *purpose.Ops))
		if len(*purpose.Ops) > 0 && !slices.ContainsFunc(*purpose.Ops, func(op string) bool {
			return !slices.Contains(encrypting, op)
		}) {
			return nil, fmt.Errorf("its key_ops are %s: %w", ops, errNotToSign)
		}
		return nil, fmt.Errorf("its key_ops are %s: want \"verify\" among them, or no key_ops", ops)
	}
	var jwk jose.JSONWebKey
	if err := json.Unmarshal(text, &jwk); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	if len(jwk.KeyID) > maxKeyID {
		return nil, fmt.Errorf("its kid is longer than %d bytes", maxKeyID)
	}
	key := &publicKey{id: jwk.KeyID, key: jwk.Key}
	switch k := jwk.Key.(type) {
	case *rsa.PublicKey:
		key.alg = rs256
		if bits := k.N.BitLen(); bits < 2048 || bits > 8192 {
			return nil, fmt.Errorf("an RSA key of %d bits: want 2048 to 8192", bits)
		}
		if k.E < 3 || k.E%2 == 0 {
			return nil, fmt.Errorf("an RSA key with the exponent %d", k.E)
		}
	case *ecdsa.PublicKey:
		key.alg = es256
		if k.Curve != elliptic.P256() {
			return nil, errors.New("an ECDSA key on another curve than P-256")
		}
	case ed25519.PublicKey:
		key.alg = edDSA
		if len(k) != ed25519.PublicKeySize {
			return nil, errors.New("an Ed25519 key of the wrong length")
		}
	default:
		return nil, errors.New("another type of key than RSA, EC or Ed25519")
	}
	if jwk.Algorithm != "" && jwk.Algorithm != key.alg {
		return nil, fmt.Errorf("its alg is %q: want RS256, ES256 or EdDSA", shorten(jwk.Algorithm))
	}
	return key, nil
}

// signed reports whether a signature of a text is this key's. The type of the
// key decides how it is read.
func (k *publicKey) signed(text string, signature []byte) bool {
	sum := sha256.Sum256([]byte(text))
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		const half = 32 // bytes of a number of P-256
		return len(signature) == 2*half && ecdsa.Verify(key, sum[:],
			new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:]))
	case ed25519.PublicKey:
		return ed25519.Verify(key, []byte(text), signature)
	}
	return false
}

// find returns the key of a token: the one that it names, or, if it names
// none, the only one of its algorithm.
func (s *keySet) find(id, alg string) *publicKey {
	if id == "" {
		return s.only[alg]
	}
	return s.keys[keyName{id, alg}]
}

// knows reports whether there is a key of this name, or whether it is none.
func (s *keySet) knows(id string) bool { return id == "" || s.names[id] }

// succeed makes next follow s: keys that stay remain the same ones, so that
// tokens verified with them stay verified; keys that are gone are marked so.
// It reports whether anything changed.
func (s *keySet) succeed(next *keySet) (changed bool) {
	if s == nil {
		return true
	}
	for name, old := range s.keys {
		if now := next.keys[name]; now != nil && same(old.key, now.key) {
			next.keys[name] = old
			continue
		}
		old.gone.Store(true)
		changed = true
	}
	next.index()
	return changed || len(next.keys) != len(s.keys)
}

func same(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// shorten keeps what others wrote from filling a log.
func shorten(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
