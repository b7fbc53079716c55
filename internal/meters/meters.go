// Package meters counts the tries of many buyers or addresses in bounded
// memory, for the gate and for the embedded ledger.
package meters

import (
	"cmp"
	"hash/maphash"
	"sync"

	"github.com/sluicehq/sluice"
)

// Table keeps what everybody's tries have cost (sluice.Meter): one number for
// each who matters now, found by a hash of who it is. Shards keep those who
// try at the same time out of each other's way; nothing is allocated per try.
//
// Memory is bounded. When a shard is full of those who still matter, all who
// are new to it share one allowance until there is room: limits fail closed,
// and no client can make the table forget another one.
type Table struct {
	seed   maphash.Seed
	shards [shards]shard
	most   int  // entries of one shard
	open   bool // newcomers are admitted uncounted where there is no room
}

const shards = 256

type shard struct {
	mu    sync.Mutex
	paid  map[uint64]int64 // sluice.Meter.Try; without an entry, 0
	sweep int              // at so many entries, those that matter no more are dropped
	full  int64            // until when there is no use in looking, µs
	rest  int64            // paid by all together who found no room

	_ [64 - 8 - 8 - 8 - 8 - 8]byte // a cache line each
}

// defaultMost is how many entries a table may hold: at most some 100 MB.
const defaultMost = 1 << 21

// minSweep keeps small shards from being swept all the time, fullPause full
// ones, in µs.
const (
	minSweep  = 64
	fullPause = 250_000
)

// New returns an empty table for about most entries; 0 means defaultMost.
func New(most int) *Table {
	most = cmp.Or(max(most, 0), defaultMost)
	return &Table{seed: maphash.MakeSeed(), most: max(most/shards, 1)}
}

// NewOpen returns a table that fails open: where it has no room, all newcomers are
// within the rate, uncounted. It is for limits that guard nothing by themselves.
func NewOpen(most int) *Table {
	t := New(most)
	t.open = true
	return t
}

// Key returns the table's key of who. Two who share one, of 2^64, share an
// allowance.
func Key[T comparable](t *Table, who T) uint64 { return maphash.Comparable(t.seed, who) }

// Try makes one try at now, in µs by any clock that does not run backwards. It
// returns 0 if the try is within the rate, and counts it; otherwise how many µs
// to wait.
func (t *Table) Try(meter sluice.Meter, key uint64, now int64) (wait int64) {
	s := &t.shards[key%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	after, wait, room := s.try(t, meter, key, now)
	if wait == 0 {
		s.count(key, after, room)
	}
	return wait
}

// Attempt is who tries, at which table, under which rate. No rate bounds the
// zero Attempt.
type Attempt struct {
	Table *Table
	Meter sluice.Meter
	Key   uint64
}

// AttemptOf returns the attempt of who, the zero one if there is no rate.
func AttemptOf[T comparable](t *Table, meter sluice.Meter, who T) Attempt {
	if meter == (sluice.Meter{}) {
		return Attempt{}
	}
	return Attempt{t, meter, Key(t, who)}
}

// mostAttempts is how many rates one try can be under.
const mostAttempts = 4

// TryAll makes one try under several rates, each at a table of its own, always in the same order of
// tables. It counts in all, or, if it is not within one of the rates, in none.
func TryAll(now int64, attempts ...Attempt) (waits [mostAttempts]int64) {
	var after [mostAttempts]int64
	var room [mostAttempts]bool
	within := true
	for i := range attempts {
		if a := &attempts[i]; a.Table != nil {
			s := &a.Table.shards[a.Key%shards]
			s.mu.Lock()
			after[i], waits[i], room[i] = s.try(a.Table, a.Meter, a.Key, now)
			within = within && waits[i] == 0
		}
	}
	for i := range attempts {
		if a := &attempts[i]; a.Table != nil {
			s := &a.Table.shards[a.Key%shards]
			if within {
				s.count(a.Key, after[i], room[i])
			}
			s.mu.Unlock()
		}
	}
	return waits
}

// Undo takes back a try that was counted just now.
func (t *Table) Undo(meter sluice.Meter, key uint64) {
	s := &t.shards[key%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if paid, known := s.paid[key]; known {
		s.paid[key] = paid - meter.Interval
	} else {
		s.rest -= meter.Interval
	}
}

// Denied takes back a try that was counted just now and denied elsewhere, and
// learns how long to wait: not at all if another rate denied it.
func (a Attempt) Denied(now, wait int64) {
	if a.Table == nil {
		return
	}
	a.Table.Undo(a.Meter, a.Key)
	if wait > 0 {
		a.Table.learn(a.Meter, a.Key, now, wait)
	}
}

// try asks without counting. Without room, it is asked of what all newcomers
// share. The caller holds mu.
func (s *shard) try(t *Table, meter sluice.Meter, key uint64, now int64) (after, wait int64, room bool) {
	paid, known := s.paid[key]
	if room = known || s.room(t.most, now); !room {
		if t.open {
			return 0, 0, false
		}
		paid = s.rest
	}
	after, wait = meter.Try(paid, now)
	return after, wait, room
}

func (s *shard) count(key uint64, after int64, room bool) {
	if room {
		s.paid[key] = after
	} else {
		s.rest = after
	}
}

// Learn notes that the owner of key has to wait, which is known from elsewhere:
// until then they are denied here too. It does nothing when there is no room.
func (t *Table) learn(meter sluice.Meter, key uint64, now, wait int64) {
	s := &t.shards[key%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.paid[key]; known || s.room(t.most, now) {
		s.paid[key] = max(before, now+wait+meter.Full-meter.Interval)
	}
}

// Len returns how many entries there are, those included that matter no more.
func (t *Table) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.paid)
		s.mu.Unlock()
	}
	return n
}

// room reports whether there is room for one more, and makes it if it can:
// looking at all entries when their number has doubled costs little for each.
func (s *shard) room(most int, now int64) bool {
	if s.paid == nil {
		s.paid, s.sweep = map[uint64]int64{}, min(minSweep, most)
	}
	if len(s.paid) < s.sweep {
		return true
	}
	if now < s.full {
		return false
	}
	for key, paid := range s.paid {
		if paid <= now {
			delete(s.paid, key)
		}
	}
	if s.sweep = min(max(2*len(s.paid), minSweep), most); len(s.paid) < s.sweep {
		return true
	}
	s.full = now + fullPause
	return false
}
