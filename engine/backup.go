package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// BackupReport says what a backup copied.
type BackupReport struct {
	Folder string    // absolute
	At     time.Time // when it began: what happened later is not promised to be in it
	Ledger sqliteledger.Copied
	Store  sqlitestore.Copied
	// Secrets are the names of the files with secrets that were copied.
	Secrets []string
}

// secretFiles are the files of a data folder that a backup holds only if asked.
func secretFiles() []string {
	return []string{"admin.key", "buyer.secret", "ticket.secret", "webhook.key"}
}

// Backup copies an embedded ledger and store to a folder, also while a server
// owns them and goes on selling. The folder is made; it may exist if it is
// empty. It appears complete or not at all, and is itself a data folder: a
// server can be started on it.
//
// # Why a restore is safe
//
// The ledger is copied first, then the store. So the store in the copy is never
// older than its ledger: what the ledger has acknowledged is stored there, every
// ending it has applied is there, every version of the terms. A load brings in
// orders that only the store has; a rebuild stores what is still in the ledger's
// journal. The other way round the copy could hold a ledger that has
// given back, and sold again, units of orders that live in its store.
//
// In the copy every loaded sale is fenced, so it is rebuilt (settle.Rebuilder)
// before it accepts its first claim: no sequence is given twice (I5), and the
// stored orders give the units taken (I1, I2).
func Backup(ctx context.Context, cfg Config, folder string, secrets bool) (report BackupReport, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		return report, err
	}
	ledger, ledgerEmbedded := sqlitePath(cfg.Ledger)
	store, storeEmbedded := sqlitePath(cfg.Store)
	if !ledgerEmbedded || !storeEmbedded {
		return report, notEmbedded(cfg)
	}
	target, err := filepath.Abs(folder)
	if err != nil {
		return report, fmt.Errorf("engine: backup: %w", err)
	}
	report = BackupReport{Folder: target, At: time.Now().UTC().Truncate(time.Millisecond)}
	if err := vacant(target); err != nil {
		return report, fmt.Errorf("engine: backup: %w", err)
	}
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return report, fmt.Errorf("engine: backup: %w", err)
	}
	work, err := os.MkdirTemp(parent, ".sluice-backup-") // mode 0700; in the same file system
	if err != nil {
		return report, fmt.Errorf("engine: backup: %w", err)
	}
	defer os.RemoveAll(work) // no longer there once renamed
	for _, name := range []string{"ledger.db", "store.db"} {
		if err := os.WriteFile(filepath.Join(work, name), nil, 0o600); err != nil { // SQLite keeps the mode
			return report, fmt.Errorf("engine: backup: %w", err)
		}
	}
	if report.Ledger, err = sqliteledger.Copy(ctx, ledger, filepath.Join(work, "ledger.db")); err != nil {
		return report, fmt.Errorf("engine: backup: %w", missing(err))
	}
	fence := "restored from the backup of " + report.At.Format(time.RFC3339)
	if report.Store, err = sqlitestore.Copy(ctx, store, filepath.Join(work, "store.db"), fence); err != nil {
		return report, fmt.Errorf("engine: backup: %w", err)
	}
	if secrets {
		if report.Secrets, err = copySecrets(cfg.DataDir, work); err != nil {
			return report, fmt.Errorf("engine: backup: %w", err)
		}
	}
	if err := publish(work, target); err != nil {
		return report, fmt.Errorf("engine: backup: %w", err)
	}
	return report, nil
}

// notEmbedded says how what is not embedded is backed up, and in which order.
func notEmbedded(cfg Config) error {
	if cfg.Ledger == inStore {
		return errors.New("a backup copies an embedded ledger and store only. Ledger and store are one database: copy it " +
			"with pg_dump. See Backup and restore in docs/operating.md")
	}
	text := "a backup copies an embedded ledger and store only. Copy the ledger first, then the store, with their own " +
		"tools: "
	if d := port.LedgerDriverOf(cfg.Ledger); d.Kind == "redis" {
		text += "Redis: copy its append-only folder or run redis-cli --rdb; "
	} else {
		text += "the embedded ledger: stop the server and copy its file; "
	}
	switch port.StoreDriverOf(cfg.Store).Kind {
	case "postgres":
		text += "PostgreSQL: pg_dump"
	case "mysql":
		text += "MySQL or MariaDB: mysqldump --single-transaction"
	default:
		text += "the embedded store: stop the server and copy its file"
	}
	return errors.New(text + ". See Backup and restore in docs/operating.md")
}

// missing makes a sentence of a ledger that is not there.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no ledger; is --data-dir right? (%w)", err)
	}
	return err
}

// vacant says why nothing can be put at path.
func vacant(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty; give a folder that does not exist yet", path)
	}
	return nil
}

func copySecrets(from, to string) (copied []string, err error) {
	for _, name := range secretFiles() {
		content, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // configured, so not kept here
		}
		if err == nil {
			err = write(filepath.Join(to, name), string(content))
		}
		if err != nil {
			return nil, err
		}
		copied = append(copied, name)
	}
	return copied, nil
}

// publish gives a finished folder its name, so that after a crash it is whole
// or absent.
func publish(work, target string) error {
	if err := disk.SyncDir(work); err != nil {
		return err
	}
	// An empty folder may be there; one that got something meanwhile stays.
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(work, target); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(target))
}
