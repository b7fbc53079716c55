package engine

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/disk"
)

// folder is the data folder, owned by one process at a time.
type folder struct {
	path string
	lock *flock.Flock
	log  *slog.Logger
}

// openFolder makes the folder if it is missing and takes its lock. It warns of a
// folder that others may write to: its files are private (disk.Private), but
// another user could put others in their place.
func openFolder(path string, log *slog.Logger) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("engine: data folder: %w", err)
	}
	lock := flock.New(filepath.Join(path, "lock"), flock.SetPermissions(0o600))
	taken, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("engine: data folder %s: lock: %w", path, err)
	}
	if !taken {
		return nil, fmt.Errorf("engine: data folder %s: %w", path, sluice.ErrInUse)
	}
	if disk.LooseFolder(path) {
		log.Warn("others than its owner may replace files of the data folder, its secrets too; want chmod 700", "folder",
			path)
	}
	return &folder{path: path, lock: lock, log: log}, nil
}

func (f *folder) close() error { return f.lock.Close() }

// secret returns the given value, or the one kept in the file, or makes one
// and keeps it there for its owner alone.
func (f *folder) secret(given, file string) (string, error) {
	return f.keep(given, file, func() string { return rand.Text() + rand.Text() }) // 260 bits
}

// node returns this server's name in the same way. A made one is 40 random bits, and short,
// since each order has it.
func (f *folder) node(given string) (string, error) {
	return f.keep(given, "node", func() string { return strings.ToLower(rand.Text()[:8]) })
}

func (f *folder) keep(given, file string, make func() string) (string, error) {
	if given != "" {
		return given, nil
	}
	path := filepath.Join(f.path, file)
	kept, err := os.ReadFile(path)
	if err == nil {
		if err := disk.Restrict(path); err != nil {
			f.log.Warn("others than its owner may read this file, and that cannot be changed", "file", path, "error", err)
		}
		value := strings.TrimSpace(string(kept))
		if value == "" {
			return "", fmt.Errorf("engine: %s is empty; delete it to have a new one made", path)
		}
		return value, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("engine: %w", err)
	}
	value := make()
	return value, write(path, value+"\n")
}

func write(path, content string) error {
	if err := disk.Write(path, content); err != nil {
		return fmt.Errorf("engine: %s: %w", path, err)
	}
	return nil
}

// migrated remembers that this server has migrated a store: then it may start
// while the store is down.
func (f *folder) migrated(store string) bool {
	kept, err := os.ReadFile(filepath.Join(f.path, "store.migrated"))
	return err == nil && auth.Redact(strings.TrimSpace(string(kept))) == auth.Redact(store)
}

func (f *folder) setMigrated(store string) error {
	if f.migrated(store) {
		return nil
	}
	return write(filepath.Join(f.path, "store.migrated"), auth.Redact(store)+"\n")
}

// rulesFile is where a server remembers the rules of its sales, for a start
// while the store does not answer. Sales that it lacks are unavailable then.
const rulesFile = "rules.json"

func (f *folder) rules() (rules map[sluice.SaleID]sluice.Rules) {
	kept, err := os.ReadFile(filepath.Join(f.path, rulesFile))
	if err != nil || json.Unmarshal(kept, &rules) != nil {
		return nil // none, or not whole: as if there were none
	}
	return rules
}

func (f *folder) keepRules(rules map[sluice.SaleID]sluice.Rules) error {
	text, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	return write(filepath.Join(f.path, rulesFile), string(text)+"\n")
}
