// Package port says what the engine needs of a ledger and of a store: the interfaces,
// what goes through them, and the drivers that open them.
package port

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/sluicehq/sluice"
)

// LedgerDriver opens the ledgers of some URLs. The packages of ledgers register theirs
// when they are imported (RegisterLedger).
type LedgerDriver struct {
	// Kind names the sort of ledger where people see it, like "redis"; Schemes are the
	// beginnings of its URLs, in small letters and without the colon, like "rediss".
	Kind    string
	Schemes []string
	// Own: only the process that has opened it can use the ledger, as a file.
	Own bool
	// MaxBatch is how many claims one call of the ledger takes at most; default 1,000.
	MaxBatch int

	// Open opens a ledger, which must answer.
	Open func(ctx context.Context, url string, o LedgerOptions) (Ledger, error)
	// OpenReadOnly opens a ledger for an audit beside its servers, or after all of them
	// have died; nil: it cannot be read so.
	OpenReadOnly func(ctx context.Context, url string) (ReadOnlyLedger, error)
	// OpenReplica prepares a replica for those who look on (ADR 9); nil: there are none.
	OpenReplica func(url string) (LedgerReplica, error)
}

// LedgerOptions are what an engine says when it opens a ledger.
type LedgerOptions struct {
	Node         string // this server, the same after a restart
	WaitReplicas int    // how many replicas must have a batch before it counts as accepted
}

// StoreDriver opens the stores of some URLs, as a LedgerDriver opens ledgers.
type StoreDriver struct {
	Kind    string
	Schemes []string
	Own     bool
	// MaxOrders is how many orders one transaction takes at most; default 2,000.
	MaxOrders int

	// Open opens a store. Lazy: its database may be down now, it has been seen before.
	Open func(ctx context.Context, url string, lazy bool) (Store, error)
	// OpenReadOnly opens a store for an audit; nil: it cannot be read so.
	OpenReadOnly func(ctx context.Context, url string) (ReadOnlyStore, error)
	// Ledger returns the ledger that is in the database of a store which this driver has
	// opened, read-only or not; nil: its database cannot decide claims.
	Ledger func(store ReadOnlyStore, node string) (Ledger, error)
}

// ReadOnlyLedger is what an audit needs of a ledger.
type ReadOnlyLedger interface {
	Read(ctx context.Context, sales []sluice.SaleID) ([]Reading, error)
	Records(ctx context.Context, sale sluice.SaleID, yield func(Record) bool) error
	PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(Entry) bool) error
	Close() error
}

// ReadOnlyStore is what an audit needs of a store.
type ReadOnlyStore interface {
	AuditStore
	Sales(ctx context.Context) ([]sluice.Sale, error)
	Close() error
}

// LedgerReplica reads sales from a replica of a ledger, for those who look on.
type LedgerReplica interface {
	Read(ctx context.Context, sales []sluice.SaleID) ([]Reading, error)
	Close() error
}

// What a ledger may do besides. An engine asks for it with As, so a ledger that wraps
// another one hides none of it if it has a method Unwrap() Ledger.
type (
	// NamedLedger keeps a name: its driver's kind, a colon and a text that no other ledger
	// has. A sale's row in the store says which ledger decides (ADR 13). Made: this process
	// gave the name, since there was none: the ledger is new, or was emptied.
	NamedLedger interface {
		Name(ctx context.Context) (name string, made bool, err error)
	}
	// ConfirmingLedger has replicas. Confirmed is an error if they do not confirm what it
	// writes about a sale: then others may have taken its place, and what it lacks proves
	// nothing. A ledger with replicas that does not say so can have its sales fenced behind
	// a network that is cut.
	ConfirmingLedger interface {
		Confirmed(ctx context.Context, sale sluice.SaleID) error
	}
	// ReplicatedLedger is a ConfirmingLedger that also says, with an error, that fewer replicas
	// are connected than claims wait for.
	ReplicatedLedger interface {
		ConfirmingLedger
		CheckReplicas(ctx context.Context) error
	}
	// RefusingLedger knows why it cannot write before a claim finds out; nil: it can. With
	// a doubt it tries again, for the next call to know.
	RefusingLedger interface {
		Refuses(doubt bool) error
	}
	// RefreshingLedger is a ReadOnlyLedger that shows one past moment, and moves to the
	// present.
	RefreshingLedger interface {
		Refresh(ctx context.Context) error
	}
)

// Risky is a ledger or a store that names the settings of its server which can lose what was
// answered with success. An engine asks for it with As.
type Risky interface {
	Risks(ctx context.Context) ([]SettingRisk, error)
}

// SettingRisk is a setting that can lose accepted claims, or changes of orders.
type SettingRisk struct {
	Setting, Value string // as it is now: "appendfsync", "everysec"
	Harm           string // what it can do
	Want           string // what would be right: "appendfsync always"
	Evicts         bool   // the harm is that keys are removed from a full memory
}

// Text says it in a line.
func (r *SettingRisk) Text() string {
	return fmt.Sprintf("%s is %s: %s", r.Setting, cmp.Or(r.Value, "empty"), r.Harm)
}

// As returns a port, or the nearest one that it wraps, as a T, if one of them is one.
func As[T any](port any) (as T, ok bool) {
	for {
		if as, ok = port.(T); ok {
			return as, true
		}
		switch outer := port.(type) {
		case interface{ Unwrap() Ledger }:
			port = outer.Unwrap()
		case interface{ Unwrap() Store }:
			port = outer.Unwrap()
		default:
			return as, false
		}
	}
}

var drivers struct {
	sync.RWMutex
	ledgers map[string]*LedgerDriver // by scheme
	stores  map[string]*StoreDriver
}

// RegisterLedger makes a driver known to all engines of the program. It panics if the
// driver cannot open anything, or another one has its scheme.
func RegisterLedger(d LedgerDriver) {
	drivers.Lock()
	defer drivers.Unlock()
	drivers.ledgers = register(drivers.ledgers, &d, d.Kind, d.Schemes, d.Open != nil)
}

// RegisterStore is RegisterLedger for stores.
func RegisterStore(d StoreDriver) {
	drivers.Lock()
	defer drivers.Unlock()
	drivers.stores = register(drivers.stores, &d, d.Kind, d.Schemes, d.Open != nil)
}

func register[D any](known map[string]*D, d *D, kind string, schemes []string, opens bool) map[string]*D {
	if known == nil {
		known = map[string]*D{}
	}
	if kind == "" || !opens || len(schemes) == 0 {
		panic(fmt.Sprintf("port: the driver %q of %q needs Kind, Schemes and Open", kind, schemes))
	}
	for _, scheme := range schemes {
		switch {
		case scheme == "" || scheme != strings.ToLower(scheme) || strings.Contains(scheme, ":"):
			panic(fmt.Sprintf("port: the scheme %q of a driver: want small letters, without a colon", scheme))
		case known[scheme] != nil:
			panic(fmt.Sprintf("port: two drivers for %q", scheme))
		}
		known[scheme] = d
	}
	return known
}

// LedgerDriverOf returns the driver that opens the ledger of a URL, nil if there is none.
func LedgerDriverOf(url string) *LedgerDriver {
	drivers.RLock()
	defer drivers.RUnlock()
	return drivers.ledgers[scheme(url)]
}

// StoreDriverOf is LedgerDriverOf for stores.
func StoreDriverOf(url string) *StoreDriver {
	drivers.RLock()
	defer drivers.RUnlock()
	return drivers.stores[scheme(url)]
}

// scheme is what a URL begins with; empty if there is no colon.
func scheme(url string) string {
	name, _, found := strings.Cut(url, ":")
	if !found {
		return ""
	}
	return strings.ToLower(name)
}
