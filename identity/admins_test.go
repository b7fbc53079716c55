package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAdmins(t *testing.T) {
	a, err := NewAdmins("master", []AdminKey{
		{Name: "ann", Role: Viewer, Key: keyOne},
		{Name: "bob@shop", Role: Operator, SHA256: strings.ToUpper(sum(keyTwo))},
		{Name: "job-1", Role: Owner, File: file(t, keyThree+"\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]Admin{
		"master": {"admin", Owner}, keyOne: {"ann", Viewer}, keyTwo: {"bob@shop", Operator}, keyThree: {"job-1", Owner},
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
	none, err := NewAdmins("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := none.Find(""); ok {
		t.Errorf("no key at all is the key of %+v", got)
	}
}

func TestAdminKeysThatAreWrong(t *testing.T) {
	good := AdminKey{Name: "ann", Role: Viewer, Key: keyOne}
	for _, c := range []struct {
		name string
		keys []AdminKey
		want string
	}{
		{"no name", []AdminKey{{Role: Viewer, Key: keyOne}}, "1 to 64"},
		{"long name", []AdminKey{{Name: strings.Repeat("n", 65), Role: Viewer, Key: keyOne}}, "1 to 64"},
		{"space in the name", []AdminKey{{Name: "a b", Role: Viewer, Key: keyOne}}, "want letters"},
		{"the buyer", []AdminKey{{Name: "buyer", Role: Viewer, Key: keyOne}}, "history"},
		{"no role", []AdminKey{{Name: "ann", Key: keyOne}}, "want a role"},
		{"unknown role", []AdminKey{{Name: "ann", Role: 9, Key: keyOne}}, "want a role"},
		{"no key", []AdminKey{{Name: "ann", Role: Viewer}}, "want one of key"},
		{"two forms", []AdminKey{{Name: "ann", Role: Viewer, Key: keyOne, SHA256: sum(keyTwo)}}, "want one of key"},
		{"short", []AdminKey{{Name: "ann", Role: Viewer, Key: "fifteen-letters"}}, "at least 16"},
		{"spaces", []AdminKey{{Name: "ann", Role: Viewer, Key: "sixteen letters and more"}}, "printable"},
		{"half a hash", []AdminKey{{Name: "ann", Role: Viewer, SHA256: sum(keyOne)[:32]}}, "64 hexadecimal"},
		{"no hash", []AdminKey{{Name: "ann", Role: Viewer, SHA256: strings.Repeat("x", 64)}}, "64 hexadecimal"},
		{"no file", []AdminKey{{Name: "ann", Role: Viewer, File: "/nonexistent/key"}}, "key_file"},
		{"an empty file", []AdminKey{{Name: "ann", Role: Viewer, File: file(t, "\n")}}, "at least 16"},
		{"name twice", []AdminKey{good, {Name: "ann", Role: Owner, Key: keyTwo}}, "stands twice"},
		{"the master's name", []AdminKey{{Name: "admin", Role: Viewer, Key: keyOne}}, "stands twice"},
		{"key twice", []AdminKey{good, {Name: "bob", Role: Owner, SHA256: sum(keyOne)}}, "same key as that of ann"},
		{"the master's key", []AdminKey{{Name: "bob", Role: Viewer, Key: "master-0123456789"}}, "same key as that of admin"},
	} {
		_, err := NewAdmins("master-0123456789", c.keys)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), keyOne) || strings.Contains(err.Error(), "fifteen-letters")) {
			t.Errorf("%s: the error tells the key: %v", c.name, err)
		}
	}
}

func TestRoles(t *testing.T) {
	for i, r := range Roles() {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%s is read as %v, %v", r, got, err)
		}
		for j, needed := range Roles() {
			if r.May(needed) != (i >= j) {
				t.Errorf("a %s may do what needs a %s: %v", r, needed, r.May(needed))
			}
		}
		if r.May(0) || Role(0).May(r) {
			t.Error("no role is a role")
		}
	}
	for _, bad := range []string{"", "Viewer", "admin", "none"} {
		if r, err := ParseRole(bad); err == nil {
			t.Errorf("%q is the role %s", bad, r)
		}
	}
}
