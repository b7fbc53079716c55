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
	terms    *sluice.Terms // of received.epoch, as they were last read; nil: not yet
}

// received is how much of a sale's history this server has been sent.
type received struct {
	epoch    int64 // of the last load heard of; 0 before the first answer
	reported int64 // the last sequence reported to this server, as the ledger remembers it too
	seen     int64 // the highest sequence seen of any server's claims
	version  int64 // the highest of its terms
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

// basis returns what claims are decided by: terms are nil if they are not known.
func (k *known) basis() (received, *sluice.Terms) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.received, k.terms
}

// forget drops the terms: they, or anything else, are not what they were taken for.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.terms = nil
}

// read takes in the terms of a reading. Those of an older reading do not replace them.
func (k *known) read(epoch int64, terms *sluice.Terms) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch == k.received.epoch && (k.terms == nil || k.terms.Version <= terms.Version) {
		k.terms = terms
	}
}

// advance takes in what an answer said. Answers may come out of order, so
// nothing goes back within an epoch, and an older epoch is ignored.
func (k *known) advance(m received) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case m.epoch > k.received.epoch:
		k.received, k.terms = m, nil
	case m.epoch == k.received.epoch:
		k.received.reported = max(k.received.reported, m.reported)
		k.received.seen = max(k.received.seen, m.seen)
		k.received.version = max(k.received.version, m.version)
	}
}
