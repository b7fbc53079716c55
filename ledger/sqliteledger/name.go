package sqliteledger

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Called returns what this ledger is called: "sqlite:" and a text that no other has, in a
// file beside it. Made says that this was made up in the last ten minutes: so long it may
// take the sales of a ledger that is lost.
func (l *Ledger) Called(context.Context) (name string, made bool, err error) {
	defer wrap(&err, "name of %s", l.path)
	l.naming.Lock()
	defer l.naming.Unlock()
	path := l.path + ".name"
	if l.called != "" {
		file, err := os.Stat(path)
		return l.called, err == nil && time.Since(file.ModTime()) < 10*time.Minute, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 { // or it was torn
		text = []byte(rand.Text())
		err = os.WriteFile(path, text, 0o600)
	}
	var file fs.FileInfo
	if err == nil {
		file, err = os.Stat(path)
	}
	if err != nil {
		return "", false, err
	}
	l.called = "sqlite:" + strings.TrimSpace(string(text))
	return l.called, time.Since(file.ModTime()) < 10*time.Minute, nil
}
