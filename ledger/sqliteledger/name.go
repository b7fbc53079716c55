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

// Name returns the name of this ledger: "sqlite:" and a text that no other has, in a
// file beside it. Made says that this was made up in the last ten minutes: so long it may
// take the sales of a ledger that is lost.
func (l *Ledger) Name(context.Context) (name string, made bool, err error) {
	defer wrap(&err, "name of %s", l.path)
	l.naming.Lock()
	defer l.naming.Unlock()
	path := l.path + ".name"
	if l.name != "" {
		file, err := os.Stat(path)
		return l.name, err == nil && time.Since(file.ModTime()) < 10*time.Minute, nil
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
	l.name = "sqlite:" + strings.TrimSpace(string(text))
	return l.name, time.Since(file.ModTime()) < 10*time.Minute, nil
}
