package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

const (
	keyOne   = "one-0123456789abcdef"
	keyTwo   = "two-0123456789abcdef"
	keyThree = "three-0123456789abcdef"
)

func sum(key string) string {
	h := sha256.Sum256([]byte(key))
	return hex.EncodeToString(h[:])
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestAdmins(t *testing.T) {
	a := must.Get(NewAdmins("master", []sluice.AdminKey{
		{Name: "ann", Role: sluice.Viewer, Key: keyOne},
		{Name: "bob@shop", Role: sluice.Operator, SHA256: strings.ToUpper(sum(keyTwo))},
		{Name: "job-1", Role: sluice.Owner, File: file(t, keyThree+"\n")},
	}))(t)
	for key, want := range map[string]Admin{
		"master": {"admin", sluice.Owner}, keyOne: {"ann", sluice.Viewer}, keyTwo: {"bob@shop", sluice.Operator},
		keyThree: {"job-1", sluice.Owner},
	} {
		if got, ok := a.Find(key); !ok || got != want {
			t.Errorf("the key of %s is %+v, %v", want.Name, got, ok)
		}
	}
	for _, key := range []string{"", "maste", "master ", "Master", keyOne[:len(keyOne)-1], sum(keyTwo), keyThree + "\n"} {
		if got, ok := a.Find(key); ok {
			t.Errorf("%q is the key of %+v", key, got)
		}
	}
	none := must.Get(NewAdmins("", nil))(t)
	if got, ok := none.Find(""); ok {
		t.Errorf("no key at all is the key of %+v", got)
	}
}

func TestAdminKeysThatAreWrong(t *testing.T) {
	good := sluice.AdminKey{Name: "ann", Role: sluice.Viewer, Key: keyOne}
	for _, c := range []struct {
		name string
		keys []sluice.AdminKey
		want string
	}{
		{"no name", []sluice.AdminKey{{Role: sluice.Viewer, Key: keyOne}}, "1 to 64"},
		{"long name", []sluice.AdminKey{{Name: strings.Repeat("n", 65), Role: sluice.Viewer, Key: keyOne}}, "1 to 64"},
		{"space in the name", []sluice.AdminKey{{Name: "a b", Role: sluice.Viewer, Key: keyOne}}, "want letters"},
		{"the buyer", []sluice.AdminKey{{Name: "buyer", Role: sluice.Viewer, Key: keyOne}}, "history"},
		{"no role", []sluice.AdminKey{{Name: "ann", Key: keyOne}}, "want a role"},
		{"unknown role", []sluice.AdminKey{{Name: "ann", Role: 9, Key: keyOne}}, "want a role"},
		{"no key", []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer}}, "want one of key"},
		{
			"two forms",
			[]sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, Key: keyOne, SHA256: sum(keyTwo)}},
			"want one of key",
		},
		{"short", []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, Key: "fifteen-letters"}}, "at least 16"},
		{"spaces", []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, Key: "sixteen letters and more"}}, "printable"},
		{"half a hash", []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, SHA256: sum(keyOne)[:32]}}, "64 hexadecimal"},
		{"no hash", []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, SHA256: strings.Repeat("x", 64)}}, "64 hexadecimal"},
		{"no file", []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, File: "/nonexistent/key"}}, "key_file"},
		{"an empty file", []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, File: file(t, "\n")}}, "at least 16"},
		{"name twice", []sluice.AdminKey{good, {Name: "ann", Role: sluice.Owner, Key: keyTwo}}, "is duplicated"},
		{"the master's name", []sluice.AdminKey{{Name: "admin", Role: sluice.Viewer, Key: keyOne}}, "is duplicated"},
		{
			"key twice",
			[]sluice.AdminKey{good, {Name: "bob", Role: sluice.Owner, SHA256: sum(keyOne)}},
			"same key as that of ann",
		},
		{
			"the master's key",
			[]sluice.AdminKey{{Name: "bob", Role: sluice.Viewer, Key: "master-0123456789"}},
			"same key as that of admin",
		},
	} {
		_, err := NewAdmins("master-0123456789", c.keys)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), keyOne) || strings.Contains(err.Error(), "fifteen-letters")) {
			t.Errorf("%s: the error shows the key: %v", c.name, err)
		}
	}
}

func TestRoles(t *testing.T) {
	roles := []sluice.Role{sluice.Viewer, sluice.Operator, sluice.Owner}
	for i, r := range roles {
		if got, err := sluice.ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%s is read as %v, %v", r, got, err)
		}
		for j, needed := range roles {
			if r.May(needed) != (i >= j) {
				t.Errorf("a %s may do what needs a %s: %v", r, needed, r.May(needed))
			}
		}
		if r.May(0) || sluice.Role(0).May(r) {
			t.Error("no role is a role")
		}
	}
	for _, bad := range []string{"", "sluice.Viewer", "admin", "none"} {
		if r, err := sluice.ParseRole(bad); err == nil {
			t.Errorf("%q is the role %s", bad, r)
		}
	}
}
