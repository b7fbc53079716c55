package sqlcore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	sqlTakeSale  = newStatement("TakeSale", update("sales", "ledger, updated_at")+` WHERE id = ?`)
	sqlGatherAll = newStatement("GatherAll", `DELETE FROM gathered WHERE sale_id = ?`)
	// HaveLedger selects the other servers that live and have a ledger.
	sqlHaveLedger = newStatement("HaveLedger",
		`SELECT node FROM nodes WHERE ledger = ? AND node <> ? AND seen_at > ? AND seen_at < ? ORDER BY node`)
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
// fenced, and servers that have gathered for the ledger before gather again.
func (s *Store) TakeSale(ctx context.Context, id sluice.SaleID, node string, within time.Duration, reason string,
) (taken bool, err error) {
	defer s.wrap(&err, "take sale=%s", id)
	err = s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		name := s.usesLedger()
		if taken = false; !sale.ArchivedAt.IsZero() || sale.DecidedBy(name) {
			return nil
		}
		now := tx.now()
		live, _ := liveServers(tx, within)
		have, err := all(tx, sqlHaveLedger, only[string], sale.Ledger, node, now.Add(-2*within), now.Add(2*within))
		switch {
		case tx.fail(err) != nil:
			return tx.err
		case len(have) > 0:
			return stateUnless(nil, id, fmt.Sprintf("its ledger %s still is that of %s: stop each server that has it, "+
				"and wait for %v", sale.Ledger, strings.Join(have, ", "), 2*within))
		case !slices.Contains(port.Nodes(live), node): // then the heartbeats of the others may be as old
			return stateUnless(nil, id, "no heartbeat of this server has arrived lately; try again in some seconds")
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
