package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Copied says what a copy of a ledger's file holds.
type Copied struct {
	Sales int64 `json:"sales"` // that are loaded
	Rows  int64 `json:"rows"`  // of the log
	Bytes int64 `json:"bytes"`
}

// Copy writes the ledger in the file at from, as it is at one moment, to the
// file at to, which must not exist or be empty. It needs no lock: a server may
// own the ledger and go on writing. When it returns without an error the copy is
// on the disk (not yet its name in the folder).
//
// The error wraps os.ErrNotExist if there is no file at from; a file that is
// not a ledger, or has another format, is an error that says so.
func Copy(ctx context.Context, from, to string) (c Copied, err error) {
	defer wrap(&err, "copy %s", from)
	source, err := openFileReadOnly(ctx, from)
	if err != nil {
		return c, err
	}
	defer source.close()
	// One read transaction: what is committed meanwhile is not in the copy.
	if _, err := source.db.ExecContext(ctx, `VACUUM INTO ?`, to); err != nil {
		return c, err
	}
	made, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return c, err
	}
	err = made.Sync()
	if err = errors.Join(err, made.Close()); err != nil {
		return c, err
	}
	return inspect(ctx, to)
}

// inspect reads the copy back: what cannot be read now is no backup.
func inspect(ctx context.Context, path string) (c Copied, err error) {
	f := &file{db: openDB(path, "ro", "query_only(1)")}
	defer f.close()
	all, _, err := f.replay(ctx)
	if err != nil {
		return c, fmt.Errorf("the copy: %w", err)
	}
	c.Sales = int64(len(all))
	if err := f.db.QueryRowContext(ctx, `SELECT count(*) FROM log`).Scan(&c.Rows); err != nil {
		return c, fmt.Errorf("the copy: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return c, err
	}
	c.Bytes = info.Size()
	return c, nil
}
