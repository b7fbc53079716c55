package sqliteledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/disk"
	"modernc.org/sqlite" // and the driver
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// applicationID marks a file as a ledger of ours: "SLdg".
	applicationID = 0x534c6467
	// fileFormat is the version of what is in log.go and body.go. A program
	// refuses a file of another format; it never guesses.
	fileFormat = 1
)

const schema = `
CREATE TABLE log (
	id    INTEGER PRIMARY KEY,
	sale  TEXT    NOT NULL,
	kind  TEXT    NOT NULL,
	epoch INTEGER NOT NULL,
	terms INTEGER NOT NULL,
	at    INTEGER NOT NULL, -- milliseconds since 1970, UTC
	seq   INTEGER NOT NULL,
	n     INTEGER NOT NULL,
	node  TEXT    NOT NULL,
	body  ANY     NOT NULL
) STRICT;
CREATE INDEX log_sale ON log (sale);
`

// file is the open SQLite file. One goroutine uses it.
type file struct {
	db     *sql.DB
	insert *sql.Stmt
	packer packer
}

// openDB opens the file with the settings given.
func openDB(path, mode string, pragmas ...string) *sql.DB {
	settings := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_pragma": pragmas}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: settings.Encode()}).
		String())
	if err != nil {
		panic(err) // only when the driver is not registered
	}
	db.SetMaxOpenConns(1)
	return db
}

// openFile opens the ledger's file for writing, and makes it if there is none.
func openFile(ctx context.Context, path string) (*file, error) {
	_, statErr := os.Stat(path)
	if err := disk.Private(path); err != nil {
		return nil, err
	}
	db := openDB(path, "rwc",
		"busy_timeout(10000)",      // a reader that takes its snapshot, the audit
		"journal_mode(WAL)",        // readers do not hinder the writer
		"synchronous(FULL)",        // fsync with every commit
		"wal_autocheckpoint(4000)", // pages: about 16 MB
	)
	f := &file{db: db}
	err := f.prepare(ctx)
	if err == nil && errors.Is(statErr, os.ErrNotExist) {
		err = disk.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *file) prepare(ctx context.Context) error {
	var tables int
	if err := f.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	prepare := checkFormat
	if tables == 0 {
		prepare = createLog
	}
	err := prepare(ctx, f.db)
	if err != nil {
		return err
	}
	f.insert, err = f.db.PrepareContext(ctx, `INSERT INTO log (id, sale, kind, epoch, terms, at, seq, n, node, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	return err
}

// createLog makes an empty file a ledger.
func createLog(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	_, err = tx.ExecContext(ctx, schema+
		fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, fileFormat))
	if err != nil {
		return err
	}
	return tx.Commit()
}

// checkFormat says clearly when the file is not a ledger that this program
// can read.
func checkFormat(ctx context.Context, db *sql.DB) error {
	var app, format int64
	err := db.QueryRowContext(ctx, `SELECT application_id, user_version FROM pragma_application_id, pragma_user_version`).
		Scan(&app, &format)
	switch {
	case err != nil:
		return err
	case app != applicationID:
		return errors.New("this SQLite file is not a ledger")
	case format != fileFormat:
		return fmt.Errorf("the ledger has format %d, this program reads format %d", format, fileFormat)
	}
	return nil
}

// append writes the rows as one transaction. After an error with nothing they are
// not in the file, no recovery finds them, and the file can still be read. After
// any other they may be on the disk or not, and the file is good for nothing but
// close.
func (f *file) append(rows []row) (nothing bool, err error) {
	tx, err := f.db.Begin()
	if err != nil {
		return false, err // something is wrong with the connection: open it again
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f.insertRows(tx, rows); err != nil {
		return true, err
	}
	// SQLite finds the disk full while it writes pages, and the last thing that it
	// writes is the mark that makes them count. The flush comes after the mark: when
	// it fails, that proves nothing.
	err = tx.Commit()
	failed := (*sqlite.Error)(nil)
	return errors.As(err, &failed) && failed.Code() == sqlite3.SQLITE_FULL, err
}

func (f *file) insertRows(tx *sql.Tx, rows []row) error {
	insert := tx.Stmt(f.insert)
	for i := range rows {
		r := &rows[i]
		var replaced []any
		switch r.kind {
		case kindLoad:
			replaced = []any{string(r.sale), string(r.sale)}
		case kindDrop: // the sale's rows, and the row of the drop before this one, which has no sale
			replaced = []any{r.body, ""}
		}
		if replaced != nil {
			if _, err := tx.Exec(`DELETE FROM log WHERE sale IN (?, ?)`, replaced...); err != nil {
				return err
			}
		}
		_, err := insert.Exec(r.id, string(r.sale), r.kind, r.epoch, r.terms, r.at.UnixMilli(), r.seq, r.n, r.node,
			f.packer.pack(r))
		if err != nil {
			return err
		}
	}
	return nil
}

// settle writes something, so that what the file says stays so. The pages of a
// commit whose flush failed are not seen while another process, an audit, has the
// file open, but a recovery would find them; these pages take their place.
func (f *file) settle(ctx context.Context) error {
	_, err := f.db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", fileFormat))
	return err
}

// readAhead bounds the rows that are read and wait to be applied.
const readAhead = 64

// replay reads the whole log, as one snapshot, and returns what it says and
// the id of its last row. One goroutine reads and inflates, and the other applies.
func (f *file) replay(ctx context.Context) (all salesByID, lastID int64, err error) {
	all = salesByID{}
	log := make(chan row, readAhead)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		defer close(log)
		return f.read(ctx, log)
	})
	both.Go(func() error {
		for r := range log {
			lastID = r.id
			if err := all.apply(&r); err != nil {
				return fmt.Errorf("log row %d (%s, sale %s): %w", r.id, r.kind, r.sale, err)
			}
		}
		return nil
	})
	if err := both.Wait(); err != nil {
		return nil, 0, err
	}
	for _, s := range all {
		s.settle()
	}
	return all, lastID, nil
}

// read sends the rows of the log.
func (f *file) read(ctx context.Context, log chan<- row) error {
	rows, err := f.db.QueryContext(ctx, `SELECT id, sale, kind, epoch, terms, at, seq, n, node, body FROM log ORDER BY id`)
	if err != nil {
		return err
	}
	defer rows.Close() // nothing was written
	for rows.Next() {
		var r row
		var id string
		var at int64
		var body any
		if err := rows.Scan(&r.id, &id, &r.kind, &r.epoch, &r.terms, &at, &r.seq, &r.n, &r.node, &body); err != nil {
			return err
		}
		f.packer.unpack(body, &r)
		r.sale, r.at = sluice.SaleID(id), time.UnixMilli(at).UTC()
		select {
		case log <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return rows.Err()
}

func (f *file) close() {
	if f.insert != nil {
		f.insert.Close() //nolint:errcheck // see below
	}
	f.db.Close() //nolint:errcheck // whatever was committed is on the disk
}
