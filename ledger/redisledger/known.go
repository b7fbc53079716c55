package redisledger

import (
	"sync"

	"github.com/sluicehq/sluice"
)

// known is what this server has received of a sale. The next call carries it, and
// a ledger that knows less than that has lost data.
type known struct {
	mu   sync.Mutex
	mark mark
}

// mark is a place in a sale's history.
type mark struct {
	epoch    int64 // of the last load heard of; 0 before the first answer
	reported int64 // the last sequence reported to this server, as the ledger remembers it too
	seen     int64 // the highest sequence seen of any server's claims
}

func (l *Ledger) known(sale sluice.SaleID) *known {
	if k, ok := l.sales.Load(sale); ok {
		return k
	}
	k, _ := l.sales.LoadOrStore(sale, &known{})
	return k
}

// markOf is what this server has received of a sale; it adds no entry for a
// sale of which it has received nothing: ids may be made up.
func (l *Ledger) markOf(sale sluice.SaleID) mark {
	if k, ok := l.sales.Load(sale); ok {
		return k.get()
	}
	return mark{}
}

func (k *known) get() mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark
}

// advance takes in what an answer said. Answers may come out of order, so
// nothing goes back within an epoch, and an older epoch is ignored.
func (k *known) advance(m mark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case m.epoch > k.mark.epoch:
		k.mark = m
	case m.epoch == k.mark.epoch:
		k.mark.reported = max(k.mark.reported, m.reported)
		k.mark.seen = max(k.mark.seen, m.seen)
	}
}
