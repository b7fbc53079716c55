package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A Book is what one reading of a sale in ledger, journal and store has found. It
// is what an audit and a reconciliation judge. Each row comes from one source.
type Book struct {
	names names

	// First, Second and Last are the ledger's readings, as the package comment
	// explains.
	First, Second, Last port.Reading
	LedgerErr           error             // why the ledger, or a part of it, could not be read
	Damage              *port.DamageError // with Options.Damaged: claims that could not be read

	claims  []Row // the ledger's, up to the first reading
	later   []Row // the ledger's, after it
	journal []Row
	letters []Row // claims set aside as dead letters
	orders  []Row

	entries, damaged      int64 // journal entries
	asides, damagedAsides int64 // dead letters
	foreign               list  // order ids that are not of this sale

	endings endings

	deleted int64 // orders of which the store has only the sums

	Stored   sluice.Sale            // the store's row
	Versions map[int64]sluice.Terms // of the terms, as the store has them
	byStatus map[sluice.Status]int64
}

// ErrNotHeld, as a Book's LedgerErr: the ledger answers, and does not hold the sale.
var ErrNotHeld = errors.New("the ledger does not hold the sale")

// ErrMoving, as a Book's LedgerErr: the sale was loaded into the ledger while it was read.
var ErrMoving = errors.New("the sale was loaded into the ledger while it was read")

// errArchived: the ledger has forgotten the sale, as it should, or will. The store
// answers for it, and what the store shows is all there is to check.
var errArchived = errors.New("the sale is archived: the store alone answers for it")

// attempts at a sale that is being loaded. Loading is rare; two in a row are
// bad luck.
const attempts = 4

// Options say what a book is for.
type Options struct {
	History bool // also how often orders gave their units up
	Damaged bool // a ledger that is damaged, or lacks its claims or its journal, is read as far as it can be
}

// Gather reads everything, in the order that the package comment explains. Errors are the
// store's and the context's; the ledger's are in the book.
func Gather(ctx context.Context, ledger Ledger, store port.AuditStore, sale sluice.SaleID, o Options) (*Book, error) {
	for n := 1; ; n++ {
		b := &Book{names: newNames(sale), Versions: map[int64]sluice.Terms{}, byStatus: map[sluice.Status]int64{}}
		ledgerErr := b.readLedger(ctx, ledger, o.Damaged)
		if err := store.Snapshot(ctx, sale, func(s port.Snapshot) error { return b.readStore(s, o.History) }); err != nil {
			return nil, err
		}
		if r, ok := port.As[port.RefreshingLedger](ledger); ok && ledgerErr == nil {
			ledgerErr = r.Refresh(ctx)
		}
		if ledgerErr == nil {
			b.Last, ledgerErr = b.read(ctx, ledger)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if ledgerErr == nil && (b.Last.Loaded != b.First.Loaded || b.Last.Epoch != b.First.Epoch) ||
			errors.Is(ledgerErr, port.ErrNotLoaded) {
			if n < attempts {
				continue
			}
			ledgerErr = ErrMoving
		}
		if ledgerErr == nil && !b.Stored.ArchivedAt.IsZero() { // what the ledger may still have is to be dropped
			ledgerErr = errArchived
		}
		if ledgerErr == nil && !b.First.Loaded && b.Stored.LoadedEpoch > 0 {
			ledgerErr = fmt.Errorf("%w, which was loaded into it (epoch %d)", ErrNotHeld, b.Stored.LoadedEpoch)
		}
		if ledgerErr != nil {
			b.LedgerErr, b.claims, b.later, b.journal = ledgerErr, nil, nil, nil // half a side proves nothing
		}
		for _, rows := range [][]Row{b.claims, b.orders, b.journal, b.letters} {
			slices.SortFunc(rows, byOrder)
		}
		return b, nil
	}
}

func (b *Book) read(ctx context.Context, ledger Ledger) (port.Reading, error) {
	readings, err := ledger.Read(ctx, []sluice.SaleID{b.names.sale})
	if err != nil {
		return port.Reading{}, err
	}
	if len(readings) != 1 {
		return port.Reading{}, fmt.Errorf("the ledger gave %d readings of one sale", len(readings))
	}
	if r := readings[0]; r.Loaded {
		return r, nil
	}
	return port.Reading{Now: readings[0].Now}, nil
}

// readLedger takes steps 1 to 3.
func (b *Book) readLedger(ctx context.Context, ledger Ledger, damaged bool) (err error) {
	if b.First, err = b.read(ctx, ledger); err != nil || !b.First.Loaded {
		return err
	}
	// A sale that was loaded or dropped meanwhile shows in the last reading; else the part is gone.
	readOn := func(err error) error {
		if damaged && (errors.As(err, &b.Damage) || errors.Is(err, port.ErrNotLoaded)) {
			return nil
		}
		return err
	}
	if err = readOn(ledger.Records(ctx, b.names.sale, func(r port.Record) bool {
		row := b.row(&r)
		switch {
		case row.Epoch > b.First.Epoch || row.Epoch == b.First.Epoch && row.Seq > b.First.Seq:
			b.later = append(b.later, row)
		default:
			b.claims = append(b.claims, row)
		}
		return true
	})); err != nil {
		return err
	}
	// A ledger that walks a hash may return the same claim twice, before and
	// after its units were released. Either will do: they were held at first.
	slices.SortFunc(b.claims, byOrder)
	b.claims = once(b.claims)
	slices.SortFunc(b.later, byOrder)
	b.later = once(b.later)

	if b.Second, err = b.read(ctx, ledger); err != nil {
		return err
	}
	return readOn(ledger.PeekJournal(ctx, b.names.sale, func(e port.Entry) bool {
		b.entries++
		if e.Damage != nil {
			b.damaged++
			return true
		}
		b.journal = b.appendEntry(b.journal, &e)
		return true
	}))
}

func (b *Book) row(r *port.Record) Row {
	row, ok := b.names.row(r)
	if !ok {
		b.foreign.add(func() string { return strconv.Quote(string(r.Order)) })
	}
	return row
}

// once drops the repetitions of a claim from rows sorted by order and place.
func once(rows []Row) []Row {
	out := rows[:0]
	for _, r := range rows {
		if n := len(out); n > 0 && out[n-1].order == r.order && out[n-1].sameClaim(&r) {
			continue
		}
		out = append(out, r)
	}
	return out
}

func (b *Book) appendEntry(rows []Row, e *port.Entry) []Row {
	for i := range e.Claims {
		r := e.Record(i)
		rows = append(rows, b.row(&r))
	}
	return rows
}

// readStore takes step 4.
func (b *Book) readStore(s port.Snapshot, history bool) error {
	b.Stored = s.Sale()
	for _, t := range s.TermsVersions() {
		b.Versions[t.Version] = t
	}
	if b.Stored.Remains != nil {
		for _, sum := range b.Stored.Remains.Sums {
			b.byStatus[sum.Status] += sum.Orders
			b.deleted += sum.Orders
		}
	}
	err := s.Orders(func(o sluice.Order) bool {
		b.byStatus[o.Status]++
		r := port.RecordOf(&o)
		row := b.row(&r)
		row.Paid = o.Status == sluice.Paid
		row.Free = row.Paid && o.Free()
		row.refused = !row.Live && o.Reason == sluice.NotCovered // unless its history says that it ended: readEndings
		b.orders = append(b.orders, row)
		return true
	})
	if err != nil {
		return err
	}
	if err := b.readEndings(s, history); err != nil {
		return err
	}
	letters, err := s.DeadLetters()
	if err != nil {
		return err
	}
	for i := range letters {
		b.readLetter(&letters[i])
	}
	return nil
}

func (b *Book) readLetter(l *port.DeadLetter) {
	b.asides++
	claims, err := port.ParseClaims(l.Claims)
	if err != nil || len(claims) == 0 {
		b.damagedAsides++ // which claims it holds is unknown
		return
	}
	b.letters = b.appendEntry(b.letters, &port.Entry{
		Sale: l.Sale, Epoch: l.Epoch, Terms: l.Terms, At: l.At, FirstSeq: l.FirstSeq, Claims: claims,
	})
}
