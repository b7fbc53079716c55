package sqliteledger

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// snapshot is a ledger's file as it was at one moment, read while a server may
// own it and go on writing. It is the audit's way in: there is nothing on it
// that writes. All its answers describe the same moment, so what Read, Records
// and PeekJournal say of a sale adds up.
type snapshot struct {
	reader
	path  string
	sales salesByID
	at    time.Time
}

var _ port.Reader = (*snapshot)(nil)

// openReadOnly reads the ledger in the file at path. It needs no lock, and
// changes nothing in the file. The error wraps os.ErrNotExist if there is no
// file; a file that is not a ledger, or has another format, is an error that
// says so.
func openReadOnly(ctx context.Context, path string) (_ *snapshot, err error) {
	defer wrap(&err, "open %s read-only", path)
	f, err := openFileReadOnly(ctx, path, "query_only(1)")
	if err != nil {
		return nil, err
	}
	defer f.close()
	s := &snapshot{path: path, at: time.Now().UTC().Truncate(time.Millisecond)}
	s.loaded = s.look
	if s.sales, _, err = f.replay(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// openFileReadOnly opens a ledger's file that may have an owner.
func openFileReadOnly(ctx context.Context, path string, pragmas ...string) (*file, error) {
	info, err := os.Stat(path) // SQLite would only say that it cannot open it
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a file")
	}
	f := &file{db: openDB(path, "ro", append(pragmas, "busy_timeout(10000)")...)}
	if err := checkFormat(ctx, f.db); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (s *snapshot) look(_ context.Context, id sluice.SaleID) (*sale, error) {
	if found := s.sales[id]; found != nil {
		return found, nil
	}
	return nil, port.ErrNotLoaded
}

// Refresh reads the file again: from then on the answers describe that moment.
// What reads a store after a snapshot needs it, to tell orders that came later
// from orders that the ledger never promised.
func (s *snapshot) Refresh(ctx context.Context) error {
	fresh, err := openReadOnly(ctx, s.path)
	if err != nil {
		return err
	}
	s.sales, s.at = fresh.sales, fresh.at
	return nil
}

// Close implements io.Closer. The file was given back when it had been read.
func (s *snapshot) Close() error { return nil }

// Read implements port.Reader. Now is when the snapshot was taken.
func (s *snapshot) Read(_ context.Context, ids []sluice.SaleID) ([]port.Reading, error) {
	return s.sales.read(ids, s.at), nil
}
