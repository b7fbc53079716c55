package pipeline_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
)

// steady are sales, each with a journal that gets an entry of 10 claims at an interval, and
// a store that takes a while for each order.
type steady struct {
	port.Journal
	pipeline.Store
	sales map[sluice.SaleID]*steadySale
}

// steadySale is one of them. One worker uses it.
type steadySale struct {
	began    time.Time
	every    time.Duration
	all      int   // entries
	read     int   // of them, handed out
	stored   []int // claims, by transaction
	longest  time.Duration
	perOrder time.Duration
	hang     time.Duration // of one transaction, the twentieth
}

func (all *steady) ReadJournal(_ context.Context, read port.JournalRead) (entries []port.Entry, err error) {
	if read.Source != port.New {
		return nil, nil
	}
	s := all.sales[read.Sale]
	for len(entries) < read.Max && s.read < s.all && s.due(s.read).Before(time.Now()) {
		s.read++
		entries = append(entries, port.Entry{ID: strconv.Itoa(s.read), Claims: make([]sluice.Claim, 10)})
	}
	return entries, nil
}

func (s *steadySale) due(entry int) time.Time { return s.began.Add(time.Duration(entry) * s.every) }

func (all *steady) Ack(context.Context, sluice.SaleID, []string) error { return nil }

func (all *steady) Insert(_ context.Context, id sluice.SaleID, entries []port.Entry) (port.Stored, error) {
	s := all.sales[id]
	oldest, _ := strconv.Atoi(entries[0].ID)
	n := 10 * len(entries)
	time.Sleep(time.Duration(n) * s.perOrder)
	if s.stored = append(s.stored, n); len(s.stored) == 20 {
		time.Sleep(s.hang)
	}
	s.longest = max(s.longest, time.Since(s.due(oldest-1)))
	return port.Stored{Inserted: n}, nil
}

// Entries gather a little at usual rates, also after the store has hung, and more in a rush:
// then a transaction stores many orders, and still each of them soon.
func TestMoreGathersInARush(t *testing.T) {
	for _, c := range []struct {
		name    string
		sales   int
		every   time.Duration // 10 claims of each
		hang    time.Duration
		least   int // claims of a transaction on average, and at most
		most    int
		longest time.Duration // until an order is stored
	}{
		{"1,000 a second", 1, 10 * time.Millisecond, 0, 10, 20, 10 * time.Millisecond},
		{"5,000 a second", 1, 2 * time.Millisecond, 0, 25, 50, 15 * time.Millisecond},
		{"5,000 and a store that hangs", 1, 2 * time.Millisecond, 100 * time.Millisecond, 25, 60, 125 * time.Millisecond},
		{"27,000 a second", 1, 370 * time.Microsecond, 0, 1500, 4000, 250 * time.Millisecond},
		{"27,000 a second of nine sales", 9, 3333 * time.Microsecond, 0, 120, 300, 150 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const long = 2 * time.Second
				began, all := time.Now(), &steady{sales: map[sluice.SaleID]*steadySale{}}
				for i := range c.sales {
					all.sales[sluice.SaleID("sale-"+strconv.Itoa(i))] = &steadySale{
						began: began, every: c.every, all: int(long / c.every), perOrder: 20 * time.Microsecond, hang: c.hang,
					}
				}
				p := pipeline.New(all, all, pipeline.Options{MaxClaims: 4000})
				for time.Since(began) < long {
					time.Sleep(2 * time.Millisecond)
					for id := range all.sales {
						p.Wake(id)
					}
				}
				must.Succeed(t, p.Close(t.Context()))
				for id, s := range all.sales {
					claims := 0
					for _, n := range s.stored {
						claims += n
					}
					if mean := claims / len(s.stored); mean < c.least || mean > c.most || s.longest > c.longest {
						t.Errorf("%s: transactions of %d claims on average, and an order waits %v: want %d to %d, and at most %v",
							id, mean, s.longest, c.least, c.most, c.longest)
					}
				}
			})
		})
	}
}
