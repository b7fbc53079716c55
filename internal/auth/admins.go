// Package auth authenticates: buyers by their tokens, admins by their keys. It
// decides nothing else; what a role may do is in the API's table of routes.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
)

// minAdminKey is the length of the shortest admin key, in characters. Keys are
// compared by a plain hash, so they must be random, not words: 16 characters
// at the very least, `openssl rand -base64 32` for a good one.
const minAdminKey = 16

// maxAdminKeys bounds how many there are: each request is compared with all.
const maxAdminKeys = 1000

// reservedNames are who else an order's history may name.
var reservedNames = []string{"buyer", "merchant"}

// ValidateKey says what is wrong with a key, without reading its file. It never
// repeats the key.
func ValidateKey(k *sluice.AdminKey) error {
	if err := validName(k.Name); err != nil {
		return err
	}
	if k.Role < sluice.Viewer || k.Role > sluice.Owner {
		return fmt.Errorf("%s: want a role: viewer, operator or owner", k.Name)
	}
	forms := 0
	for _, form := range []string{k.Key, k.SHA256, k.File} {
		if form != "" {
			forms++
		}
	}
	if forms != 1 {
		return fmt.Errorf("%s: want one of key, key_sha256 and key_file", k.Name)
	}
	if k.Key != "" {
		if err := validKey(k.Key); err != nil {
			return fmt.Errorf("%s: key: %w", k.Name, err)
		}
	}
	if k.SHA256 != "" {
		if sum, err := hex.DecodeString(k.SHA256); err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("%s: key_sha256: want 64 hexadecimal digits", k.Name)
		}
	}
	return nil
}

func validName(name string) error {
	if len(name) == 0 || len(name) > 64 {
		return fmt.Errorf("name %q: want 1 to 64 characters", shorten(name))
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@", r)) {
			return fmt.Errorf("name %q: want letters, digits, '-', '_', '.' and '@'", name)
		}
	}
	if slices.Contains(reservedNames, name) {
		return fmt.Errorf("name %q: an order's history uses it for another actor", name)
	}
	return nil
}

func validKey(key string) error {
	if len(key) < minAdminKey {
		return fmt.Errorf("it is short: want at least %d characters, random ones", minAdminKey)
	}
	if len(key) > 512 {
		return errors.New("it is long: want at most 512 characters")
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return errors.New("want printable ASCII characters without spaces")
		}
	}
	return nil
}

// hashKey reads the key, and hashes it.
func hashKey(k *sluice.AdminKey) (sum [sha256.Size]byte, err error) {
	key := k.Key
	switch {
	case k.SHA256 != "":
		_, err := hex.Decode(sum[:], []byte(k.SHA256))
		return sum, err
	case k.File != "":
		text, err := os.ReadFile(k.File)
		if err != nil {
			return sum, fmt.Errorf("%s: key_file: %w", k.Name, err)
		}
		key = strings.TrimSpace(string(text))
		if err := validKey(key); err != nil {
			return sum, fmt.Errorf("%s: key_file %s: %w", k.Name, k.File, err)
		}
	}
	return sha256.Sum256([]byte(key)), nil
}

// Admin is who acts.
type Admin struct {
	Name string
	Role sluice.Role
}

// Admins knows admins by their keys. It is safe for concurrent use.
type Admins struct {
	admins []Admin
	hashes [][sha256.Size]byte
}

// MasterName is the name of the owner's key that every server has.
const MasterName = "admin"

// NewAdmins reads the keys. Master is the owner's, named MasterName, of any
// length; empty: there is none. Two keys of one name, or two names for one key,
// are an error: the records would not say who it was.
func NewAdmins(master string, keys []sluice.AdminKey) (*Admins, error) {
	if len(keys) > maxAdminKeys {
		return nil, fmt.Errorf("identity: %d admin keys: want at most %d", len(keys), maxAdminKeys)
	}
	a := &Admins{}
	if master != "" {
		a.add(Admin{MasterName, sluice.Owner}, sha256.Sum256([]byte(master)))
	}
	for i := range keys {
		k := &keys[i]
		if err := ValidateKey(k); err != nil {
			return nil, fmt.Errorf("identity: admin key %w", err)
		}
		sum, err := hashKey(k)
		if err != nil {
			return nil, fmt.Errorf("identity: admin key %w", err)
		}
		if err := a.unlike(k.Name, sum); err != nil {
			return nil, fmt.Errorf("identity: admin key %w", err)
		}
		a.add(Admin{k.Name, k.Role}, sum)
	}
	return a, nil
}

func (a *Admins) add(admin Admin, sum [sha256.Size]byte) {
	a.admins, a.hashes = append(a.admins, admin), append(a.hashes, sum)
}

// Named are the named keys in words, hashed, so that servers can compare theirs however they were given.
func (a *Admins) Named() (all []string) {
	for i, admin := range a.admins {
		if admin.Name != MasterName {
			all = append(all, fmt.Sprintf("%s %s %x", admin.Name, admin.Role, a.hashes[i]))
		}
	}
	slices.Sort(all)
	return all
}

// Of returns the admin of this name, and the hash of the key: what was made with another one is none of this admin's.
func (a *Admins) Of(name string) (admin Admin, key [sha256.Size]byte, ok bool) {
	for i, other := range a.admins {
		if other.Name == name {
			return other, a.hashes[i], true
		}
	}
	return Admin{}, key, false
}

type signedInKey struct{}

// SignIn returns the context of requests that this process makes for an admin who has shown the key before.
// No request from outside can have it.
func SignIn(ctx context.Context, admin Admin) context.Context {
	return context.WithValue(ctx, signedInKey{}, admin)
}

// SignedIn returns who that is.
func SignedIn(ctx context.Context) (admin Admin, ok bool) {
	admin, ok = ctx.Value(signedInKey{}).(Admin)
	return admin, ok && admin.Role != 0
}

func (a *Admins) unlike(name string, sum [sha256.Size]byte) error {
	for i, other := range a.admins {
		if other.Name == name {
			return fmt.Errorf("%s: the name is duplicated", name)
		}
		if a.hashes[i] == sum {
			return fmt.Errorf("%s: it is the same key as that of %s", name, other.Name)
		}
	}
	return nil
}

// Find returns whose key this is. It takes the same time for every key, right
// or wrong: it compares hashes, with all of them, in constant time.
func (a *Admins) Find(key string) (Admin, bool) {
	have := sha256.Sum256([]byte(key))
	found := -1
	for i := range a.hashes {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(have[:], a.hashes[i][:]), i, found)
	}
	if key == "" || found < 0 {
		return Admin{}, false
	}
	return a.admins[found], true
}
