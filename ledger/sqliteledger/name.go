package sqliteledger

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Called returns what this ledger is called: "sqlite:" and a text that no other has, in a
// file beside it. Made says that this handle has made it up.
func (l *Ledger) Called(context.Context) (name string, made bool, err error) {
	defer wrap(&err, "name of %s", l.path)
	l.naming.Lock()
	defer l.naming.Unlock()
	if l.called != "" {
		return l.called, l.made, nil
	}
	path := l.path + ".name"
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 { // or it was torn
		text, made = []byte(rand.Text()), true
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return "", false, err
	}
	l.called, l.made = "sqlite:"+strings.TrimSpace(string(text)), made
	return l.called, l.made, nil
}
