package redisledger

import (
	"sync"

	"github.com/sluicehq/sluice"
)

// known is what this server has received of a sale. The next call carries it, and
// a ledger that knows less than that has lost data.
type known struct {
	mu       sync.Mutex
	received received
}

// received is how much of a sale's history this server has been sent.
type received struct {
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

// receivedOf returns what this server has received of a sale; it adds no entry for a
// sale of which it has received nothing: ids may be made up.
func (l *Ledger) receivedOf(sale sluice.SaleID) received {
	if k, ok := l.sales.Load(sale); ok {
		return k.get()
	}
	return received{}
}

func (k *known) get() received {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.received
}

// advance takes in what an answer said. Answers may come out of order, so
// nothing goes back within an epoch, and an older epoch is ignored.
func (k *known) advance(m received) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case m.epoch > k.received.epoch:
		k.received = m
	case m.epoch == k.received.epoch:
		k.received.reported = max(k.received.reported, m.reported)
		k.received.seen = max(k.received.seen, m.seen)
	}
}
