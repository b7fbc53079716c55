package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Copied says what a copy of a store's file holds.
type Copied struct {
	Sales  int64 `json:"sales"`
	Orders int64 `json:"orders"`
	Bytes  int64 `json:"bytes"`
}

// Copy writes the store in the file at from, as it is at one moment, to the
// file at to, which must not exist or be empty; another process may own the
// store and go on writing. When it returns without an error the copy is on the
// disk (not yet its name in the folder).
//
// Every sale in the copy that is loaded into a ledger is fenced there with this
// reason: a server that starts with the copy, beside any ledger, loads each sale
// again before the first claim. The copy has no leases and heartbeats of
// the original's servers.
func Copy(ctx context.Context, from, to, fence string) (Copied, error) {
	c, err := copyFile(ctx, from, to, fence)
	if err != nil {
		return Copied{}, fmt.Errorf("sqlitestore: copy %s: %w", from, err)
	}
	return c, nil
}

func copyFile(ctx context.Context, from, to, fence string) (c Copied, err error) {
	if fence == "" {
		return c, errors.New("a fence needs a reason")
	}
	source, err := connectReadOnly(ctx, from)
	if err != nil {
		return c, err
	}
	err = source.Close()
	if err != nil {
		return c, err
	}
	// As connectReadOnly, but for query_only, under which SQLite writes no other
	// file either.
	plain, err := handle(from, 1, "mode=rw")
	if err != nil {
		return c, err
	}
	// One read transaction: what is committed meanwhile is not in the copy.
	_, err = plain.ExecContext(ctx, `VACUUM main INTO ?`, to)
	if err = errors.Join(err, plain.Close()); err != nil {
		return c, err
	}
	if c, err = prepareCopy(ctx, to, fence); err != nil {
		return c, fmt.Errorf("the copy: %w", err)
	}
	made, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return c, err
	}
	err = made.Sync()
	info, statErr := made.Stat()
	if err = errors.Join(err, statErr, made.Close()); err != nil {
		return c, err
	}
	c.Bytes = info.Size()
	return c, nil
}

// prepareCopy fences the sales, forgets the servers, and reads the copy back:
// what cannot be read now is no backup.
func prepareCopy(ctx context.Context, path, fence string) (c Copied, err error) {
	db, err := handle(path, 1, "mode=rw", "_txlock=immediate", "_pragma=synchronous(FULL)")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return c, err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	const loaded = `UPDATE sales SET fence = ?
		WHERE fence = '' AND epoch > 0 AND loaded_epoch = epoch AND archived_at IS NULL`
	if _, err := tx.ExecContext(ctx, loaded, fence); err != nil {
		return c, err
	}
	for _, table := range []string{"leases", "nodes", "gathered"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
			return c, err
		}
	}
	if err := tx.Commit(); err != nil {
		return c, err
	}
	var sound string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&sound); err != nil {
		return c, err
	}
	if sound != "ok" {
		return c, errors.New(sound)
	}
	const counts = `SELECT (SELECT count(*) FROM sales), (SELECT count(*) FROM orders)`
	err = db.QueryRowContext(ctx, counts).Scan(&c.Sales, &c.Orders)
	return c, err
}
