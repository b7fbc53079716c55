package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicehq/sluice"
)

// book is what one audit has read. Rows are of one source each.
type book struct {
	names names

	first, second, last sluice.Reading
	ledgerErr           error // why the ledger, or a part of it, could not be read

	claims  []row // the ledger's, up to the first reading
	later   []row // the ledger's, after it
	journal []row
	letters []row // claims set aside as dead letters
	orders  []row

	entries, damaged      int64 // journal entries
	asides, damagedAsides int64 // dead letters
	foreign               list  // order ids that are not of this sale

	endings endings

	stored   sluice.Sale
	versions map[int64]sluice.Terms
	byStatus map[sluice.Status]int64
}

// errMoving: the sale was loaded into the ledger while it was read.
var errMoving = errors.New("the sale was loaded into the ledger while it was read")

// errArchived: the ledger has forgotten the sale, as it should. The store
// answers for it, and what the store shows is all there is to check.
var errArchived = errors.New("the sale is archived: the store alone answers for it")

// attempts at a sale that is being loaded. Loading is rare; two in a row are
// bad luck.
const attempts = 4

// gather reads everything, in the order that the package comment explains.
func gather(ctx context.Context, ledger Ledger, store sluice.AuditStore, sale sluice.SaleID) (*book, error) {
	for n := 1; ; n++ {
		b := &book{names: newNames(sale), versions: map[int64]sluice.Terms{}, byStatus: map[sluice.Status]int64{}}
		ledgerErr := b.readLedger(ctx, ledger)
		if err := store.Snapshot(ctx, sale, b.readStore); err != nil {
			return nil, err
		}
		if r, ok := ledger.(Refresher); ok && ledgerErr == nil {
			ledgerErr = r.Refresh(ctx)
		}
		if ledgerErr == nil {
			b.last, ledgerErr = b.read(ctx, ledger)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if ledgerErr == nil && (b.last.Loaded != b.first.Loaded || b.last.Epoch != b.first.Epoch) ||
			errors.Is(ledgerErr, sluice.ErrNotLoaded) {
			if n < attempts {
				continue
			}
			ledgerErr = errMoving
		}
		if ledgerErr == nil && !b.first.Loaded && !b.stored.ArchivedAt.IsZero() {
			ledgerErr = errArchived
		}
		if ledgerErr == nil && !b.first.Loaded && b.stored.LoadedEpoch > 0 {
			ledgerErr = fmt.Errorf("the ledger does not hold the sale, which was loaded into it (epoch %d)", b.stored.LoadedEpoch)
		}
		if ledgerErr != nil {
			b.ledgerErr, b.claims, b.later, b.journal = ledgerErr, nil, nil, nil // half a side proves nothing
		}
		return b, nil
	}
}

func (b *book) read(ctx context.Context, ledger Ledger) (sluice.Reading, error) {
	readings, err := ledger.Read(ctx, []sluice.SaleID{b.names.sale})
	if err != nil {
		return sluice.Reading{}, err
	}
	if len(readings) != 1 {
		return sluice.Reading{}, fmt.Errorf("the ledger gave %d readings of one sale", len(readings))
	}
	if r := readings[0]; r.Loaded {
		return r, nil
	}
	return sluice.Reading{Now: readings[0].Now}, nil
}

// readLedger takes steps 1 to 3.
func (b *book) readLedger(ctx context.Context, ledger Ledger) (err error) {
	if b.first, err = b.read(ctx, ledger); err != nil || !b.first.Loaded {
		return err
	}
	err = ledger.Records(ctx, b.names.sale, func(r sluice.Record) bool {
		row := b.row(&r)
		switch {
		case row.epoch > b.first.Epoch || row.epoch == b.first.Epoch && row.seq > b.first.Seq:
			b.later = append(b.later, row)
		default:
			b.claims = append(b.claims, row)
		}
		return true
	})
	if err != nil {
		return err
	}
	// A ledger that walks a hash may tell of the same claim twice, before and
	// after its units were released. Either will do: they were held at first.
	slices.SortFunc(b.claims, byOrder)
	b.claims = once(b.claims)
	slices.SortFunc(b.later, byOrder)
	b.later = once(b.later)

	if b.second, err = b.read(ctx, ledger); err != nil {
		return err
	}
	return ledger.PeekJournal(ctx, b.names.sale, func(e sluice.Entry) bool {
		b.entries++
		if e.Damage != nil {
			b.damaged++
			return true
		}
		b.journal = b.appendEntry(b.journal, &e)
		return true
	})
}

func (b *book) row(r *sluice.Record) row {
	row, ok := b.names.row(r)
	if !ok {
		b.foreign.add(func() string { return strconv.Quote(string(r.Order)) })
	}
	return row
}

// once drops the repetitions of a claim from rows sorted by order and place.
func once(rows []row) []row {
	out := rows[:0]
	for _, r := range rows {
		if n := len(out); n > 0 && out[n-1].order == r.order && out[n-1].sameClaim(&r) {
			continue
		}
		out = append(out, r)
	}
	return out
}

func (b *book) appendEntry(rows []row, e *sluice.Entry) []row {
	for i := range e.Claims {
		r := e.Record(i)
		rows = append(rows, b.row(&r))
	}
	return rows
}

// readStore takes step 4.
func (b *book) readStore(s sluice.Snapshot) error {
	b.stored = s.Sale()
	for _, t := range s.TermsVersions() {
		b.versions[t.Version] = t
	}
	err := s.Orders(func(o sluice.Order) bool {
		b.byStatus[o.Status]++
		r := o.Record()
		row := b.row(&r)
		row.refused = !row.live && o.Reason == sluice.NotCovered // unless its history says that it ended: readEndings
		b.orders = append(b.orders, row)
		return true
	})
	if err != nil {
		return err
	}
	if err := b.readEndings(s); err != nil {
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

func (b *book) readLetter(l *sluice.DeadLetter) {
	b.asides++
	claims, err := sluice.ParseClaims(l.Claims)
	if err != nil || len(claims) == 0 {
		b.damagedAsides++ // nobody can say which claims it holds
		return
	}
	b.letters = b.appendEntry(b.letters, &sluice.Entry{
		Sale: l.Sale, Epoch: l.Epoch, Terms: l.Terms, At: l.At, FirstSeq: l.FirstSeq, Claims: claims,
	})
}
