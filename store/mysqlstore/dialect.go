package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

// dialect is MySQL and MariaDB as sqlcore sees them.
type dialect struct{ sqlcore.JSONTables }

func (dialect) Name() string { return "mysqlstore" }

// Time returns NULL for a year that DATETIME cannot hold as well.
func (dialect) Time(t time.Time) any {
	if t = sqlcore.WholeMillis(t); t.Year() < 1000 || t.Year() > 9999 {
		return nil
	}
	return t
}

func (dialect) Now(ctx context.Context, tx *sql.Tx) (now time.Time, err error) {
	err = tx.QueryRowContext(ctx, selectNow).Scan(sqlcore.Moment(&now))
	return now, err
}

// ReadOnce: the first read of such a transaction fixes what it sees.
func (dialect) ReadOnce() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

// Numbers of errors, of both databases.
const (
	tooManyConnections   = 1040
	serverShutdown       = 1053
	diskFull             = 1021
	tableFull            = 1114 // or the disk
	noSuchTable          = 1146
	tooManyOfUser        = 1203
	lockWaitTimeout      = 1205
	deadlock             = 1213
	readOnlyServer       = 1290
	queryInterrupted     = 1317
	readOnlyMode         = 1836
	sessionKilled        = 1927 // MariaDB, as it shuts down
	statementTimeout     = 1969 // MariaDB
	sessionKilledOfMySQL = 3169

	statementTimeoutOfMySQL = 3024
	idleTooLong             = 4031

	noDefault    = 1364
	wrongValue   = 1366
	raised       = 1644 // by SIGNAL, in a trigger
	checkOfMySQL = 3819
)

func (dialect) Retry(err error) bool { return errorNumber(err) == deadlock }

// Busy: 1020 to 1030 are about the disk and the storage engine.
func (dialect) Busy(err error) bool {
	switch number := errorNumber(err); number {
	case deadlock, lockWaitTimeout, tooManyConnections, tooManyOfUser, serverShutdown, sessionKilled, sessionKilledOfMySQL,
		queryInterrupted, statementTimeout, statementTimeoutOfMySQL, idleTooLong, tableFull, readOnlyServer, readOnlyMode:
		return true
	default:
		return number >= 1020 && number <= 1030 || errors.Is(err, mysql.ErrInvalidConn)
	}
}

// Refuses goes by the class of the SQLSTATE, of data or of integrity constraints,
// where the error has one of its own.
func (dialect) Refuses(err error) bool {
	my := (*mysql.MySQLError)(nil)
	if !errors.As(err, &my) {
		return false
	}
	switch class := string(my.SQLState[:2]); my.Number {
	case noDefault, wrongValue, raised, checkOfMySQL:
		return true
	default:
		return class == "22" || class == "23" || class == "45" // that of SIGNAL
	}
}

func (dialect) Full(err error) bool {
	number := errorNumber(err)
	return number == diskFull || number == tableFull
}

func errorNumber(err error) uint16 {
	if my := (*mysql.MySQLError)(nil); errors.As(err, &my) {
		return my.Number
	}
	return 0
}

// A statement of many rows is cut into several, so that each fits into the
// smallest packet that a server may be configured for (max_allowed_packet of
// 1 MiB), even if every byte of its texts needs an escape.
const (
	maxRows  = 1000
	maxBytes = 400 << 10 // of texts
)

// InsertOrders inserts nothing if an order is there already: to leave that one
// out, the database would wait for the transaction that is changing it, which may
// be waiting for the sale's row, which we hold. The orders of a sale are inserted
// under the lock of its row, so none can come between the look and the statement.
func (d dialect) InsertOrders(ctx context.Context, tx *sql.Tx, orders []sqlcore.NewOrder) (inserted int, err error) {
	for part := range slices.Chunk(orders, maxRows) {
		ids := make([]any, len(part))
		for i := range part {
			ids[i] = string(part[i].ID)
		}
		var there int
		if err := tx.QueryRowContext(ctx, anyExisting+sqlcore.Placeholders(len(ids)), ids...).Scan(&there); err != nil ||
			there > 0 {
			return 0, err
		}
	}
	for len(orders) > 0 {
		n := fitting(orders)
		row, args := sqlcore.Placeholders(strings.Count(sqlcore.NewOrderColumns, ",")+1), []any{}
		for i := range orders[:n] {
			args = orders[i].AppendValues(args, d)
		}
		result, err := tx.ExecContext(ctx, insertOrders+strings.Repeat(row+", ", n-1)+row+orDuplicate, args...)
		if err != nil {
			return 0, err
		}
		rows, err := result.RowsAffected() // those changed to what they were do not count: clientFoundRows is off
		if err != nil {
			return 0, err
		}
		inserted += int(rows)
		orders = orders[n:]
	}
	return inserted, nil
}

// fitting returns how many orders one statement takes.
func fitting(orders []sqlcore.NewOrder) int {
	bytes := 0
	for n := range min(len(orders), maxRows) {
		o := &orders[n]
		bytes += len(o.ID) + len(o.Sale) + len(o.Buyer) + len(o.Key) + len(o.Meta) + len(o.Reason) + len(o.Node)
		if n > 0 && bytes > maxBytes {
			return n
		}
	}
	return min(len(orders), maxRows)
}

// Existing reads what is committed, which is all there is: the sale's row is
// locked, and transactions read what is committed when each statement begins.
func (dialect) Existing(ctx context.Context, tx *sql.Tx, batch *sqlcore.Batch) (all []sluice.Order, err error) {
	var ids, buyers []any
	places := map[int64][]any{} // sequences by epoch
	for i := range batch.Claims {
		c := &batch.Claims[i]
		ids, buyers = append(ids, string(c.Order)), append(buyers, string(c.Buyer))
		places[c.Epoch] = append(places[c.Epoch], c.Seq)
	}
	find := func(query string, args, list []any) {
		for part := range slices.Chunk(list, maxRows) {
			if err == nil {
				rows, failed := tx.QueryContext(ctx, query+sqlcore.Placeholders(len(part)), slices.Concat(args, part)...)
				all, err = sqlcore.AppendOrders(all, rows, failed)
			}
		}
	}
	find(existingOrders, nil, ids)
	find(existingClaims, []any{string(batch.Sale)}, buyers)
	for epoch, seqs := range places {
		find(existingPlaces, []any{string(batch.Sale), epoch}, seqs)
	}
	return all, err
}
