package sqlcore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	// LockLease holds the row until the transaction ends.
	sqlLockLease = newStatement("LockLease", `SELECT holder, fence, ttl, expires_at FROM leases WHERE name = ? FOR UPDATE`)
	// AddLease adds a lease of no holder, and nothing if it is there.
	sqlAddLease = newStatement("AddLease",
		`INSERT INTO leases (name, holder, expires_at) VALUES (?, '', ?) ON CONFLICT (name) DO NOTHING`)
	sqlSetLease = newStatement("SetLease", update("leases", "holder, fence, ttl, expires_at")+` WHERE name = ?`)
	sqlEndLease = newStatement("EndLease", `UPDATE leases SET holder = '' WHERE name = ? AND holder = ?`)
	sqlBeat     = newStatement("Beat", update("nodes", "seen_at, ledger, about")+` WHERE node = ?`)
	sqlAddNode  = newStatement("AddNode", insertInto("nodes", "node, seen_at, ledger, about")+`
		ON CONFLICT (node) DO NOTHING`)
	sqlForgetNodes = newStatement("ForgetNodes", `DELETE FROM nodes WHERE seen_at < ?`)
	sqlLiveServers = newStatement("LiveServers", `SELECT node, about FROM nodes WHERE seen_at > ? AND seen_at < ?
		ORDER BY node`)
	sqlAddGathered = newStatement("AddGathered",
		insertInto("gathered", "sale_id, epoch, node, gathered_at")+` ON CONFLICT (sale_id, epoch, node) DO NOTHING`)
	// GatheredLast is the highest epoch of an id whose rows are left; those of a deleted sale are.
	sqlGatheredLast = newStatement("GatheredLast", `SELECT coalesce(max(epoch), 0) FROM gathered WHERE sale_id = ?`)
	sqlGathered     = newStatement("Gathered", `SELECT node FROM gathered WHERE sale_id = ? AND epoch = ? ORDER BY node`)
)

// clockMargin is how far a lease may end beyond its ttl from now: the database's
// clock may step back that far before a lease counts as one of another time.
const clockMargin = time.Second

// Lease takes or renews a lease, as lock.Backend says. The clock is read once the
// lease's row is locked, so of two that want it the second one sees what the first
// one got. The row of a name stays until a day after its end (see Tidy): one that
// vanished could not be locked. Fencing numbers are the time in microseconds, so
// that they rise beyond that day as well.
//
// A lease that ends later than one taken now with the same ttl would, was taken
// before the database's clock stepped back. It has expired: its holder, if it lives, renews
// it by the new time, and if it is dead the others must not wait for the step.
//
// One that ended and that no other has taken since may be renewed: its row shows it.
func (s *Store) Lease(ctx context.Context, name, holder string, fence int64, ttl time.Duration) (got int64, err error) {
	defer s.wrap(&err, "lease %s to %s", name, holder)
	switch {
	case !shortText(name):
		return 0, errNotShort("name of a lease", name)
	case !shortText(holder):
		return 0, errNotShort("holder of a lease", holder)
	case fence < 0:
		return 0, fmt.Errorf("fencing number %d: want 0 or more", fence)
	case ttl < time.Millisecond:
		return 0, fmt.Errorf("for %v: want a millisecond or more", ttl)
	}
	err = s.change(ctx, func(tx *conn) (err error) {
		got, err = tx.lease(name, holder, fence, ttl)
		return err
	})
	if err != nil {
		got = 0
	}
	return got, err
}

func (q *conn) lease(name, holder string, fence int64, ttl time.Duration) (int64, error) {
	var by string
	var last, taken int64 // taken: the holder's ttl in ms; 0 of a lease that none had
	var until time.Time
	lock := func() error { return q.row(sqlLockLease, name).Scan(&by, &last, &taken, moment{&until}) }
	err := lock()
	if errors.Is(err, sql.ErrNoRows) { // no server has ever asked for it
		q.set(sqlAddLease, name, storeNow)
		err = lock()
	}
	if err != nil {
		return 0, err
	}
	now := q.now()
	lasts := max(ttl, time.Duration(taken)*time.Millisecond) + clockMargin
	held := by != "" && now.Before(until) && !until.After(now.Add(lasts))
	switch {
	case by == holder && (held || fence > 0):
		fence = max(last, fence)
	case held || fence > 0:
		return 0, nil
	default:
		fence = max(last+1, now.UnixMicro())
	}
	return fence, q.set(sqlSetLease, holder, fence, ttl.Milliseconds(), now.Add(ttl), name)
}

// Unlease gives a lease back.
func (s *Store) Unlease(ctx context.Context, name, holder string) (err error) {
	defer s.wrap(&err, "give back the lease %s of %s", name, holder)
	if !shortText(name) || !shortText(holder) {
		return nil // no server has it
	}
	return s.change(ctx, func(tx *conn) error { return tx.set(sqlEndLease, name, holder) })
}

// forgetAfter is when a silent server is forgotten, so that names which servers
// make up at each start do not stay for ever.
const forgetAfter = 30 * 24 * time.Hour

// Heartbeat says that a server lives, and what it is.
func (s *Store) Heartbeat(ctx context.Context, server port.Server) (err error) {
	node := server.Node
	defer s.wrap(&err, "heartbeat of %s", node)
	if !shortText(node) {
		return errNotShort("name of a server", node)
	}
	about, err := json.Marshal(server)
	if err != nil {
		return err
	}
	known := false
	err = s.change(ctx, func(tx *conn) error {
		now := tx.now()
		if known = tx.changed(sqlBeat, now, s.usesLedger(), string(about), node); known {
			return nil
		}
		// It is new, or MySQL, which does not count a row that stays as it is,
		// was asked twice in a millisecond.
		return tx.set(sqlAddNode, node, now, s.usesLedger(), string(about))
	})
	if err != nil || known {
		return err
	}
	// In a transaction of its own: it may wait for the rows of other servers, which
	// must not wait for ours then.
	return s.change(ctx, func(tx *conn) error { return tx.exec(sqlForgetNodes, tx.now().Add(-forgetAfter)) })
}

// LiveServers returns the servers whose last heartbeat is near, by name. One that
// lies farther ahead was sent before the database's clock stepped back, by a
// server that has sent none since.
func (s *Store) LiveServers(ctx context.Context, within time.Duration) (servers []port.Server, err error) {
	defer s.wrap(&err, "list live servers")
	err = s.view(ctx, func(tx *conn) error {
		servers, err = liveServers(tx, within)
		return err
	})
	return servers, err
}

func liveServers(tx *conn, within time.Duration) ([]port.Server, error) {
	now := tx.now()
	return all(tx, sqlLiveServers, scanServer, now.Add(-within), now.Add(within))
}

func scanServer(r row) (s port.Server, err error) {
	var about string
	if err := r.Scan(&s.Node, &about); err != nil {
		return s, err
	}
	_ = json.Unmarshal([]byte(about), &s) // else it lives, and shares nothing that could be compared
	return s, nil
}

// MarkGathered says that a server has stored what it remembers.
func (s *Store) MarkGathered(ctx context.Context, sale sluice.SaleID, epoch int64, node, ledger string) (err error) {
	defer s.wrap(&err, "mark gathered sale=%s epoch=%d node=%s", sale, epoch, node)
	if !shortText(node) {
		return errNotShort("name of a server", node)
	}
	if err := sale.Validate(); err != nil {
		return err
	}
	return s.changeSale(ctx, sale, func(tx *conn, row *sluice.Sale) error {
		if row.Ledger != ledger {
			return nil
		}
		return tx.set(sqlAddGathered, sale, epoch, node, storeNow)
	})
}

// Gathered returns the servers that have said so, by name.
func (s *Store) Gathered(ctx context.Context, sale sluice.SaleID, epoch int64) (nodes []string, err error) {
	defer s.wrap(&err, "list gathered sale=%s epoch=%d", sale, epoch)
	return all(s.reads(ctx), sqlGathered, only[string], sale, epoch)
}

// maxShort is the longest name of something, in bytes.
const maxShort = 255

func shortText(text string) bool {
	return text != "" && len(text) <= maxShort && utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

func errNotShort(what, text string) error {
	return fmt.Errorf("%s of %d bytes: want 1 to %d bytes of UTF-8", what, len(text), maxShort)
}
