package world

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// store is one server's way to the store of the world. What no loop of a server calls, and no
// actor needs, is the embedded store's.
type store struct {
	port.Store
	way *way
}

// Close ends this server's use of the store.
func (s *store) Close() error { return s.Store.Close() }

func (s *store) CreateSale(ctx context.Context, sale sluice.Sale) (sluice.Sale, error) {
	return get(ctx, s.way, call{"CreateSale", sale.ID, true}, func() (sluice.Sale, error) {
		return s.Store.CreateSale(ctx, sale)
	})
}

func (s *store) Sale(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
	return get(ctx, s.way, call{"Sale", id, false}, func() (sluice.Sale, error) { return s.Store.Sale(ctx, id) })
}

func (s *store) Sales(ctx context.Context) ([]sluice.Sale, error) {
	return get(ctx, s.way, call{"Sales", "", false}, func() ([]sluice.Sale, error) { return s.Store.Sales(ctx) })
}

func (s *store) SelectSales(ctx context.Context, filter port.SaleFilter) ([]sluice.Sale, error) {
	return get(ctx, s.way, call{"SelectSales", "", false}, func() ([]sluice.Sale, error) {
		return s.Store.SelectSales(ctx, filter)
	})
}

func (s *store) ChangeSale(ctx context.Context, id sluice.SaleID, change func(*sluice.Sale) error) (
	sluice.Sale, error,
) {
	return get(ctx, s.way, call{"ChangeSale", id, true}, func() (sluice.Sale, error) {
		return s.Store.ChangeSale(ctx, id, change)
	})
}

func (s *store) DeleteSale(ctx context.Context, id sluice.SaleID, version int64) error {
	return s.way.do(ctx, call{"DeleteSale", id, true}, func() error { return s.Store.DeleteSale(ctx, id, version) })
}

func (s *store) FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) error {
	return s.way.do(ctx, call{"FenceSale", id, true}, func() error { return s.Store.FenceSale(ctx, id, epoch, reason) })
}

func (s *store) TakeSale(ctx context.Context, id sluice.SaleID, node string, within time.Duration, reason string) (
	bool, error,
) {
	return get(ctx, s.way, call{"TakeSale", id, true}, func() (bool, error) {
		return s.Store.TakeSale(ctx, id, node, within, reason)
	})
}

func (s *store) Insert(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (port.Stored, error) {
	return get(ctx, s.way, call{"Insert", sale, true}, func() (port.Stored, error) {
		if s.way.server.world.faults.refuses(entries) {
			return port.Stored{}, port.ErrUnstorable
		}
		return s.Store.Insert(ctx, sale, entries)
	})
}

func (s *store) Order(ctx context.Context, id sluice.OrderID) (sluice.Order, error) {
	return get(ctx, s.way, call{"Order", saleOf(id), false}, func() (sluice.Order, error) {
		return s.Store.Order(ctx, id)
	})
}

func (s *store) Change(ctx context.Context, change sluice.Change) (sluice.Order, error) {
	return get(ctx, s.way, call{"Change", saleOf(change.Order), true}, func() (sluice.Order, error) {
		return s.Store.Change(ctx, change)
	})
}

func (s *store) PendingReleases(ctx context.Context, sale sluice.SaleID) (int64, error) {
	return get(ctx, s.way, call{"PendingReleases", sale, false}, func() (int64, error) {
		return s.Store.PendingReleases(ctx, sale)
	})
}

func (s *store) Restock(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sluice.Sale, error) {
	return get(ctx, s.way, call{"Restock", id, true}, func() (sluice.Sale, error) {
		return s.Store.Restock(ctx, id, restock, delta)
	})
}

func (s *store) UndoLowering(ctx context.Context, id sluice.SaleID, version int64) (sluice.Sale, error) {
	return get(ctx, s.way, call{"UndoLowering", id, true}, func() (sluice.Sale, error) {
		return s.Store.UndoLowering(ctx, id, version)
	})
}

func (s *store) ConfirmTotal(ctx context.Context, id sluice.SaleID, version int64) error {
	return s.way.do(ctx, call{"ConfirmTotal", id, true}, func() error { return s.Store.ConfirmTotal(ctx, id, version) })
}

func (s *store) Archive(ctx context.Context, id sluice.SaleID) (bool, error) {
	return get(ctx, s.way, call{"Archive", id, true}, func() (bool, error) { return s.Store.Archive(ctx, id) })
}

func (s *store) Claim(ctx context.Context, claim sluice.ClaimID) (sluice.Order, error) {
	return get(ctx, s.way, call{"Claim", claim.Sale, false}, func() (sluice.Order, error) {
		return s.Store.Claim(ctx, claim)
	})
}

func (s *store) BeginLoad(ctx context.Context, id sluice.SaleID, passed int64) (port.LoadImage, error) {
	return get(ctx, s.way, call{"BeginLoad", id, true}, func() (port.LoadImage, error) {
		return s.Store.BeginLoad(ctx, id, passed)
	})
}

func (s *store) ConfirmLoad(ctx context.Context, id sluice.SaleID, epoch int64) error {
	return s.way.do(ctx, call{"ConfirmLoad", id, true}, func() error { return s.Store.ConfirmLoad(ctx, id, epoch) })
}

func (s *store) LastSeq(ctx context.Context, id sluice.SaleID, epoch int64) (int64, error) {
	return get(ctx, s.way, call{"LastSeq", id, false}, func() (int64, error) { return s.Store.LastSeq(ctx, id, epoch) })
}

func (s *store) SetAside(ctx context.Context, letter port.DeadLetter) error {
	return s.way.do(ctx, call{"SetAside", letter.Sale, true}, func() error { return s.Store.SetAside(ctx, letter) })
}

func (s *store) DeadLetters(ctx context.Context, sale sluice.SaleID) ([]port.DeadLetter, error) {
	return get(ctx, s.way, call{"DeadLetters", sale, false}, func() ([]port.DeadLetter, error) {
		return s.Store.DeadLetters(ctx, sale)
	})
}

func (s *store) ResolveDeadLetter(ctx context.Context, id int64, how string) error {
	return s.way.do(ctx, call{"ResolveDeadLetter", "", true}, func() error {
		return s.Store.ResolveDeadLetter(ctx, id, how)
	})
}

func (s *store) Lease(ctx context.Context, name, holder string, fence int64, ttl time.Duration) (int64, error) {
	return get(ctx, s.way, call{"Lease", "", true}, func() (int64, error) {
		return s.Store.Lease(ctx, name, holder, fence, ttl)
	})
}

func (s *store) Unlease(ctx context.Context, name, holder string) error {
	return s.way.do(ctx, call{"Unlease", "", true}, func() error { return s.Store.Unlease(ctx, name, holder) })
}

func (s *store) Heartbeat(ctx context.Context, own port.Server) error {
	return s.way.do(ctx, call{"Heartbeat", "", true}, func() error { return s.Store.Heartbeat(ctx, own) })
}

func (s *store) LiveServers(ctx context.Context, within time.Duration) ([]port.Server, error) {
	return get(ctx, s.way, call{"LiveServers", "", false}, func() ([]port.Server, error) {
		return s.Store.LiveServers(ctx, within)
	})
}

func (s *store) MarkGathered(ctx context.Context, sale sluice.SaleID, epoch int64, node, ledger string) error {
	return s.way.do(ctx, call{"MarkGathered", sale, true}, func() error {
		return s.Store.MarkGathered(ctx, sale, epoch, node, ledger)
	})
}

func (s *store) Gathered(ctx context.Context, sale sluice.SaleID, epoch int64) ([]string, error) {
	return get(ctx, s.way, call{"Gathered", sale, false}, func() ([]string, error) {
		return s.Store.Gathered(ctx, sale, epoch)
	})
}

func (s *store) Tidy(ctx context.Context) error {
	return s.way.do(ctx, call{"Tidy", "", true}, func() error { return s.Store.Tidy(ctx) })
}

func (s *store) ReissueRelease(ctx context.Context, order sluice.OrderID, epoch int64) (bool, error) {
	return get(ctx, s.way, call{"ReissueRelease", saleOf(order), true}, func() (bool, error) {
		return s.Store.ReissueRelease(ctx, order, epoch)
	})
}

func (s *store) NumberEvents(ctx context.Context, limit int) (int, error) {
	return get(ctx, s.way, call{"NumberEvents", "", true}, func() (int, error) {
		return s.Store.NumberEvents(ctx, limit)
	})
}

func (s *store) Events(ctx context.Context, after int64, limit int) ([]sluice.Event, error) {
	return get(ctx, s.way, call{"Events", "", false}, func() ([]sluice.Event, error) {
		return s.Store.Events(ctx, after, limit)
	})
}

func (s *store) Advance(ctx context.Context, id sluice.WebhookID, p port.Progress) (bool, error) {
	return get(ctx, s.way, call{"Advance", "", true}, func() (bool, error) { return s.Store.Advance(ctx, id, p) })
}

func (s *store) DueDeliveries(ctx context.Context, id sluice.WebhookID, limit int) ([]sluice.Delivery, error) {
	return get(ctx, s.way, call{"DueDeliveries", "", false}, func() ([]sluice.Delivery, error) {
		return s.Store.DueDeliveries(ctx, id, limit)
	})
}

func (s *store) Snapshot(ctx context.Context, id sluice.SaleID, read func(port.Snapshot) error) error {
	return s.way.do(ctx, call{"Snapshot", id, false}, func() error { return s.Store.Snapshot(ctx, id, read) })
}

func (s *store) Backlog(ctx context.Context) (port.Backlog, error) {
	return get(ctx, s.way, call{"Backlog", "", false}, func() (port.Backlog, error) { return s.Store.Backlog(ctx) })
}

func (s *store) RecordAdminAction(ctx context.Context, action port.AdminAction) error {
	return s.way.do(ctx, call{"RecordAdminAction", action.Sale, true}, func() error {
		return s.Store.RecordAdminAction(ctx, action)
	})
}

func (s *store) Clock(ctx context.Context) (time.Time, error) {
	return get(ctx, s.way, call{"Clock", "", false}, func() (time.Time, error) { return s.Store.Clock(ctx) })
}

func (s *store) Ping(ctx context.Context) error {
	return s.way.do(ctx, call{"Ping", "", false}, func() error { return s.Store.Ping(ctx) })
}

func (s *store) Orders(ctx context.Context, filter sluice.OrderFilter) (page []sluice.Order, next string, err error) {
	err = s.way.do(ctx, call{"Orders", filter.Sale, false}, func() error {
		page, next, err = s.Store.Orders(ctx, filter)
		return err
	})
	return page, next, err
}

func (s *store) ExpireDue(ctx context.Context, limit int, may func(sluice.SaleID) bool,
	until func(now time.Time) time.Time,
) (map[sluice.SaleID]int, error) {
	return get(ctx, s.way, call{"ExpireDue", "", true}, func() (map[sluice.SaleID]int, error) {
		return s.Store.ExpireDue(ctx, limit, may, until)
	})
}

func (s *store) GiveReleases(ctx context.Context, limit int,
	give func(sale sluice.SaleID, releases []port.Release) error,
) (int, error) {
	return get(ctx, s.way, call{"GiveReleases", "", true}, func() (int, error) {
		return s.Store.GiveReleases(ctx, limit, give)
	})
}

func (s *store) Restocked(ctx context.Context, id sluice.SaleID, restock string, delta int64) (
	sale sluice.Sale, made bool, err error,
) {
	err = s.way.do(ctx, call{"Restocked", id, false}, func() error {
		sale, made, err = s.Store.Restocked(ctx, id, restock, delta)
		return err
	})
	return sale, made, err
}

func (s *store) RecountTaken(ctx context.Context, sale sluice.SaleID) (before, after int64, err error) {
	err = s.way.do(ctx, call{"RecountTaken", sale, true}, func() error {
		before, after, err = s.Store.RecountTaken(ctx, sale)
		return err
	})
	return before, after, err
}

func (s *store) InsertEnded(ctx context.Context, sale sluice.SaleID, ended []port.Record, by, reason string) (
	[]sluice.OrderID, error,
) {
	return get(ctx, s.way, call{"InsertEnded", sale, true}, func() ([]sluice.OrderID, error) {
		return s.Store.InsertEnded(ctx, sale, ended, by, reason)
	})
}

func (s *store) EndAgain(ctx context.Context, ended *port.Record, by, reason string) error {
	return s.way.do(ctx, call{"EndAgain", ended.Sale, true}, func() error {
		return s.Store.EndAgain(ctx, ended, by, reason)
	})
}

func (s *store) Recovered(ctx context.Context, sale sluice.SaleID, epoch int64, reason string, keep time.Duration) (
	time.Time, error,
) {
	return get(ctx, s.way, call{"Recovered", sale, true}, func() (time.Time, error) {
		return s.Store.Recovered(ctx, sale, epoch, reason, keep)
	})
}
