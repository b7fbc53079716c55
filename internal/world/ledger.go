package world

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// shared is the ledger of all servers of a world: an embedded one, and what Redis keeps
// besides: what each server was told, and who has which entries of a journal.
type shared struct {
	mu    sync.Mutex
	inner *sqliteledger.Ledger
	path  string
	life  int // how often it was opened
	clock *clock
	memo
	marked *memo // as it was when the file was copied
}

// memo is what the shared ledger keeps besides its file.
type memo struct {
	told   map[place]seen
	handed map[entry]hand
	asked  map[decided]string // who asked for the claim with this sequence
}

type (
	place struct {
		server string
		sale   sluice.SaleID
	}
	seen struct{ epoch, received, saw, version int64 }
	// entry is an entry of a journal. A ledger may give its id again in another epoch.
	entry struct {
		sale sluice.SaleID
		id   string
	}
	hand struct {
		server string
		at     time.Time
		times  int64
	}
	decided struct {
		sale       sluice.SaleID
		epoch, seq int64
	}
)

func newMemo() memo {
	return memo{told: map[place]seen{}, handed: map[entry]hand{}, asked: map[decided]string{}}
}

func (m *memo) clone() *memo {
	return &memo{told: maps.Clone(m.told), handed: maps.Clone(m.handed), asked: maps.Clone(m.asked)}
}

// without is a copy that knows nothing of a sale.
func (m *memo) without(sale sluice.SaleID) *memo {
	c := m.clone()
	maps.DeleteFunc(c.told, func(p place, _ seen) bool { return p.sale == sale })
	maps.DeleteFunc(c.handed, func(e entry, _ hand) bool { return e.sale == sale })
	maps.DeleteFunc(c.asked, func(d decided, _ string) bool { return d.sale == sale })
	return c
}

// open opens the ledger's file; another life has a file of its own.
func (l *shared) open(ctx context.Context, dir string) (err error) {
	l.path = filepath.Join(dir, fmt.Sprintf("ledger-%d.db", l.life))
	l.inner, err = sqliteledger.Open(ctx, l.path, sqliteledger.Options{Node: "shared", Now: l.clock.now})
	return err
}

// ledger is one server's way to the shared ledger, and what the server has seen of it.
type ledger struct {
	way    *way
	shared *shared
	name   string
	known  map[sluice.SaleID]seen // guarded by shared.mu
}

// Unwrap lets an engine find what the embedded ledger does besides.
func (l *ledger) Unwrap() port.Ledger { return l.inner() }

func (l *ledger) inner() *sqliteledger.Ledger {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	return l.shared.inner
}

// Close ends this server's use.
func (l *ledger) Close() error { return nil }

func (l *ledger) Claim(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	return get(ctx, l.way, call{"Claim", sale, true}, func() ([]sluice.Decision, error) {
		if why, err := l.lacks(ctx, sale); err != nil {
			return nil, err
		} else if why != "" {
			none := make([]sluice.Decision, len(claims))
			for i := range none {
				none[i].Code = sluice.Unavailable
			}
			return none, nil
		}
		decisions, err := l.inner().Claim(ctx, sale, claims)
		if err == nil {
			l.hears(sale, decisions)
		}
		return decisions, err
	})
}

// lacks fences the sale if the ledger has less than it told this server, and says why.
func (l *ledger) lacks(ctx context.Context, sale sluice.SaleID) (why string, err error) {
	readings, err := l.inner().Read(ctx, []sluice.SaleID{sale})
	if err != nil || !readings[0].Loaded {
		return "", err
	}
	r := &readings[0]
	l.shared.mu.Lock()
	known, told := l.known[sale], l.shared.told[place{l.name, sale}]
	l.shared.mu.Unlock()
	switch {
	case r.Epoch < known.epoch:
		why = fmt.Sprintf("epoch %d, where %s knew epoch %d", r.Epoch, l.name, known.epoch)
	case r.Epoch == known.epoch && r.Seq < max(known.received, known.saw),
		r.Epoch == known.epoch && told.epoch == known.epoch && told.received < known.received:
		why = fmt.Sprintf("sequence %d, where %s saw %d", r.Seq, l.name, max(known.received, known.saw))
	case r.Epoch == known.epoch && r.Terms.Version < known.version:
		why = fmt.Sprintf("version %d of the terms, where %s knew %d", r.Terms.Version, l.name, known.version)
	default:
		return "", nil
	}
	return why, l.inner().Fence(ctx, sale, r.Epoch, port.FenceLost+": "+why)
}

// hears notes what the ledger has told this server.
func (l *ledger) hears(sale sluice.SaleID, decisions []sluice.Decision) {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	for i := range decisions {
		d := &decisions[i]
		if d.Code != sluice.Accepted {
			continue
		}
		if !d.Replayed {
			l.shared.asked[decided{sale, d.Epoch, d.Seq}] = l.name
		}
		told := seen{epoch: d.Epoch, received: d.Seq, saw: d.Seq}
		if known := l.known[sale]; d.Epoch > known.epoch || d.Epoch == known.epoch && d.Seq > known.received {
			l.shared.told[place{l.name, sale}] = told
		}
		l.advance(sale, told)
	}
}

// advance notes what this server has seen of a sale.
func (l *ledger) advance(sale sluice.SaleID, s seen) {
	switch known := l.known[sale]; {
	case s.epoch > known.epoch:
		l.known[sale] = s
	case s.epoch == known.epoch:
		l.known[sale] = seen{
			s.epoch, max(s.received, known.received), max(s.saw, known.saw), max(s.version, known.version),
		}
	}
}

func (l *ledger) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	return get(ctx, l.way, call{"Read", "", false}, func() ([]port.Reading, error) {
		for _, sale := range sales { // a reading finds a loss, as a claim does
			if _, err := l.lacks(ctx, sale); err != nil {
				break
			}
		}
		readings, err := l.inner().Read(ctx, sales)
		l.shared.mu.Lock()
		defer l.shared.mu.Unlock()
		for i := range readings {
			r := &readings[i]
			if r.Err == nil && r.Loaded && r.Fence == "" {
				l.advance(r.Sale, seen{epoch: r.Epoch, saw: r.Seq, version: r.Terms.Version})
			}
		}
		return readings, err
	})
}

func (l *ledger) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error {
	return l.way.do(ctx, call{"Records", sale, false}, func() error { return l.inner().Records(ctx, sale, yield) })
}

func (l *ledger) Holders(ctx context.Context, sale sluice.SaleID, yield func(sluice.BuyerID) bool) error {
	return l.way.do(ctx, call{"Holders", sale, false}, func() error { return l.inner().Holders(ctx, sale, yield) })
}

func (l *ledger) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (port.Record, error) {
	return get(ctx, l.way, call{"Find", saleOf(order), false}, func() (port.Record, error) {
		return l.inner().Find(ctx, order, buyer)
	})
}

func (l *ledger) Recall(ctx context.Context, claim sluice.ClaimID) (port.Record, error) {
	return get(ctx, l.way, call{"Recall", claim.Sale, false}, func() (port.Record, error) {
		return l.inner().Recall(ctx, claim)
	})
}

func (l *ledger) Load(ctx context.Context, image port.LoadImage) error {
	return l.way.do(ctx, call{"Load", image.Sale, true}, func() error {
		err := l.inner().Load(ctx, image)
		l.way.server.world.tell("server %d loads %s under epoch %d: %v", l.way.server.n, image.Sale, image.Epoch, err)
		return err
	})
}

func (l *ledger) Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
	return l.way.do(ctx, call{"Apply", sale, true}, func() error { return l.inner().Apply(ctx, sale, epoch, terms) })
}

func (l *ledger) Fence(ctx context.Context, sale sluice.SaleID, epoch int64, reason string) error {
	return l.way.do(ctx, call{"Fence", sale, true}, func() error { return l.inner().Fence(ctx, sale, epoch, reason) })
}

func (l *ledger) Unfence(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	return l.way.do(ctx, call{"Unfence", sale, true}, func() error { return l.inner().Unfence(ctx, sale, epoch) })
}

func (l *ledger) Drop(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	return l.way.do(ctx, call{"Drop", sale, true}, func() error { return l.inner().Drop(ctx, sale, epoch) })
}

// ReadJournal hands entries out to servers, which the embedded ledger knows none of.
func (l *ledger) ReadJournal(ctx context.Context, read port.JournalRead) ([]port.Entry, error) {
	return get(ctx, l.way, call{"ReadJournal", read.Sale, true}, func() (entries []port.Entry, err error) {
		err = l.peek(ctx, read.Sale, func(e port.Entry) bool {
			after := number(e.ID) > number(read.After)
			key := entry{e.Sale, fmt.Sprint(e.Epoch, "/", e.ID)}
			l.shared.mu.Lock()
			defer l.shared.mu.Unlock()
			has, out := l.shared.handed[key]
			switch read.Source {
			case port.Own:
				if !out || has.server != l.name || !after {
					return true
				}
			case port.New:
				if out {
					return true
				}
			case port.Abandoned:
				if !out || has.server == l.name || time.Since(has.at) < read.Idle {
					return true
				}
			}
			e.Deliveries = has.times + 1
			l.shared.handed[key] = hand{l.name, time.Now(), e.Deliveries}
			entries = append(entries, e)
			return read.Max <= 0 || len(entries) < read.Max
		})
		return entries, err
	})
}

// number returns the place of an entry in its journal; 0 for none.
func number(id string) int64 {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil && id != "" {
		panic(err)
	}
	return n
}

func (l *ledger) Ack(ctx context.Context, sale sluice.SaleID, ids []string) error {
	return l.way.do(ctx, call{"Ack", sale, true}, func() error { return l.inner().Ack(ctx, sale, ids) })
}

func (l *ledger) PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) error {
	return l.way.do(ctx, call{"PeekJournal", sale, false}, func() error { return l.peek(ctx, sale, yield) })
}

// peek reads the journal, and names the servers that asked.
func (l *ledger) peek(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) error {
	return l.inner().PeekJournal(ctx, sale, func(e port.Entry) bool {
		l.shared.mu.Lock()
		if asked := l.shared.asked[decided{e.Sale, e.Epoch, e.FirstSeq}]; asked != "" {
			e.Node = asked
		}
		l.shared.mu.Unlock()
		return yield(e)
	})
}

func (l *ledger) Release(ctx context.Context, sale sluice.SaleID, releases []port.Release) (port.Released, error) {
	return get(ctx, l.way, call{"Release", sale, true}, func() (port.Released, error) {
		released, err := l.inner().Release(ctx, sale, releases)
		if released.Applied < len(releases) {
			l.way.server.world.tell("server %d gives back %d orders of %s: %+v, %v", l.way.server.n, len(releases), sale,
				released, err)
		}
		return released, err
	})
}

func (l *ledger) Allow(ctx context.Context, sale sluice.SaleID, rates port.Rates, tries []port.Try) (
	[]port.Wait, error,
) {
	return get(ctx, l.way, call{"Allow", sale, true}, func() ([]port.Wait, error) {
		return l.inner().Allow(ctx, sale, rates, tries)
	})
}
