package sqlcore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	sqlTakeSale  = newStatement("TakeSale", update("sales", "ledger, updated_at")+` WHERE id = ?`)
	sqlGatherAll = newStatement("GatherAll", `DELETE FROM gathered WHERE sale_id = ?`)
	// HaveLedger counts the other servers that live and have a ledger.
	sqlHaveLedger = newStatement("HaveLedger",
		`SELECT count(*) FROM nodes WHERE ledger = ? AND node <> ? AND seen_at > ? AND seen_at < ?`)
)

// UseLedger notes the name of this server's ledger.
func (s *Store) UseLedger(name string) { s.ledger.Store(&name) }

func (s *Store) usesLedger() string {
	if name := s.ledger.Load(); name != nil {
		return *name
	}
	return ""
}

// TakeSale makes this server's ledger the one that decides about a sale. The sale is
// fenced, and servers that have gathered for another ledger gather again: they store
// what waits in theirs.
func (s *Store) TakeSale(ctx context.Context, id sluice.SaleID, node string, within time.Duration, reason string,
) (taken bool, err error) {
	defer s.wrap(&err, "take sale=%s", id)
	err = s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		name := s.usesLedger()
		if taken = false; !sale.ArchivedAt.IsZero() || sale.DecidedBy(name) {
			return nil
		}
		now := tx.now()
		if within > 0 {
			theirs, _, _ := strings.Cut(sale.Ledger, ":")
			ours, _, _ := strings.Cut(name, ":")
			live, err := all(tx, sqlLiveNodes, only[string], now.Add(-within), now.Add(within))
			if err != nil || theirs != ours || !slices.Contains(live, node) {
				return err
			}
			have, err := only[int64](tx.row(sqlHaveLedger, sale.Ledger, node, now.Add(-2*within), now.Add(2*within)))
			if err != nil || have > 0 {
				return err
			}
		}
		taken = true
		tx.set(sqlTakeSale, name, now, id)
		tx.exec(sqlGatherAll, id)
		if sale.Epoch > 0 && tx.changed(sqlFenceSale, cleanText(reason), now, id, sale.Epoch) {
			tx.addSaleEventOf(sluice.EventSaleUnavailable, id, now)
		}
		return tx.err
	})
	return taken && err == nil, err
}
