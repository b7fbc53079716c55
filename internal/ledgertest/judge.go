package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// player plays a script on one ledger, and compares what it answers with what
// the model said.
type player struct {
	testing.TB
	ctx    context.Context
	open   Open
	ledger port.Ledger
	clock  *Clock
	batch  int // claims of one call; 0: as the script has them

	noJournal bool // see Harness

	steps []step
	gone  map[sluice.SaleID]map[int64]bool // acknowledged sequences of the epoch
	seqs  map[sluice.OrderID]int64         // of claims accepted since the load, which the model orders as they came
	said  []sluice.Decision                // every decision, for equivalent
}

// judge plays a random script from the seed, and returns the first thing that
// is wrong.
func judge(t testing.TB, open Open, seed uint64, noJournal bool) error {
	t.Helper()
	_, err := play(t, variant{noJournal: noJournal}, open, newScript(seed, scriptSteps), seed)
	return err
}

// play plays a script, and returns the player with all that was said.
func play(t testing.TB, v variant, open Open, script []step, seed uint64) (*player, error) {
	t.Helper()
	p := &player{
		TB: t, open: open, clock: newClock(), batch: v.Batch, noJournal: v.noJournal, steps: script,
		gone: map[sluice.SaleID]map[int64]bool{}, seqs: map[sluice.OrderID]int64{},
	}
	p.ledger = open(t, "node-a", p.clock)
	for n := range script {
		if wrong := p.step(script[:n+1]); len(wrong) > 0 {
			return p, describe(seed, n, &script[n], wrong)
		}
	}
	return p, p.ledger.Close()
}

// step does and checks the last of these steps; the others are done.
func (p *player) step(done []step) (wrong []string) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	p.ctx = ctx
	s := &done[len(done)-1]
	if wrong = p.do(s); len(wrong) == 0 {
		wrong = p.check(s, done)
	}
	return wrong
}

// do does one step, and returns what is wrong with the answer.
func (p *player) do(s *step) []string {
	switch s.act {
	case doClaim:
		return p.claim(s)
	case doApply:
		return p.keeper(s, p.ledger.Apply(p.ctx, s.sale, s.epoch, s.terms))
	case doFence:
		if s.reason == "" {
			return p.keeper(s, p.ledger.Unfence(p.ctx, s.sale, s.epoch))
		}
		return p.keeper(s, p.ledger.Fence(p.ctx, s.sale, s.epoch, s.reason))
	case doLoad:
		return p.load(s)
	case doRelease:
		return p.release(s)
	case doAdvance:
		p.clock.Advance(s.advance)
	case doAck:
		_, wrong := p.ack(s.sale, s.read, s.ack)
		return wrong
	case doRestart:
		if err := p.ledger.Close(); err != nil {
			return []string{err.Error()}
		}
		p.ledger = p.open(p.TB, "node-a", p.clock)
	}
	return nil
}

func (p *player) keeper(s *step, err error) []string {
	if errors.Is(err, s.err) && (err == nil) == (s.err == nil) {
		return nil
	}
	return []string{fmt.Sprintf("error %v, want %v", err, s.err)}
}

func (p *player) release(s *step) []string {
	got, err := p.ledger.Release(p.ctx, s.sale, s.ended)
	if d := diff(s.released, got); d != "" {
		return []string{"Release: -model +ledger\n" + d}
	}
	return p.keeper(s, err)
}

func (p *player) claim(s *step) (wrong []string) {
	size := len(s.claims)
	if p.batch > 0 {
		size = p.batch
	}
	var got []sluice.Decision
	for claims := range slices.Chunk(s.claims, size) {
		decisions, err := p.ledger.Claim(p.ctx, s.sale, claims)
		if err != nil {
			return []string{err.Error()}
		}
		if problem := checkDecisions(claims, decisions); problem != "" {
			return []string{problem}
		}
		got = append(got, decisions...)
	}
	var places, wantPlaces []int64
	for i := range got {
		slices.Sort(got[i].Orders) // the port gives them no order
		want := s.decisions[i]
		want.Orders = sorted(want.Orders)
		if want.Code == sluice.Accepted && !want.Replayed {
			places, wantPlaces = append(places, got[i].Seq), append(wantPlaces, want.Seq)
			p.seqs[want.Order], got[i].Seq = got[i].Seq, want.Seq
		} else if seq, known := p.seqs[got[i].Order]; known && got[i].Seq == seq {
			got[i].Seq = want.Seq
		}
		if d := diff(want, got[i]); d != "" {
			wrong = append(wrong, fmt.Sprintf("claim %d %+v: -model +ledger\n%s", i, s.claims[i], d))
		}
	}
	if slices.Sort(places); len(wrong) == 0 && !slices.Equal(places, wantPlaces) {
		wrong = append(wrong, fmt.Sprintf("sequences %d, want %d in some order", places, wantPlaces))
	}
	p.said = append(p.said, got...)
	return wrong
}

// load empties the journal, as the one who loads has to, and loads.
func (p *player) load(s *step) []string {
	if s.image.Epoch > 1 {
		for _, source := range []port.Source{port.Own, port.New} {
			for n, reads := 1, 0; n > 0; reads++ {
				var wrong []string
				if n, wrong = p.ack(s.sale, port.JournalRead{Sale: s.sale, Source: source, Max: 50}, 50); len(wrong) > 0 {
					return wrong
				}
				if reads > 100 {
					return []string{"the journal does not come to its end, whatever is acknowledged"}
				}
			}
		}
	}
	err := p.ledger.Load(p.ctx, s.image)
	if err == nil {
		p.gone[s.sale] = map[int64]bool{allStored: p.noJournal}
		for i := range s.image.Records {
			delete(p.seqs, s.image.Records[i].Order)
		}
	}
	return p.keeper(s, err)
}

// ack reads entries and acknowledges the first few of them.
func (p *player) ack(id sluice.SaleID, read port.JournalRead, most int) (n int, wrong []string) {
	entries, err := p.ledger.ReadJournal(p.ctx, read)
	if err != nil {
		return 0, []string{err.Error()}
	}
	if len(entries) > read.Max {
		return 0, []string{fmt.Sprintf("%d entries, want at most %d", len(entries), read.Max)}
	}
	entries = entries[:min(most, len(entries))]
	if err := p.ledger.Ack(p.ctx, id, ids(entries)); err != nil {
		return 0, []string{err.Error()}
	}
	for _, e := range entries {
		for i := range e.Claims {
			p.gone[id][e.FirstSeq+int64(i)] = true
		}
	}
	return len(entries), nil
}

// check compares the readings after every step, and after some of them all
// that the ledger holds.
func (p *player) check(s *step, done []step) (wrong []string) {
	got, err := p.ledger.Read(p.ctx, scriptSales)
	if err != nil {
		return []string{err.Error()}
	}
	asRead := slices.Clone(got)
	for i := range got {
		got[i].Backlog, got[i].Oldest = 0, 0
	}
	if d := diff(s.readings, got); d != "" {
		return []string{"Read: -model +ledger\n" + d}
	}
	if s.records == nil {
		return nil
	}
	for i, id := range scriptSales {
		if !got[i].Loaded {
			continue
		}
		got[i] = asRead[i]
		records, journal, err := everything(p.ctx, p.ledger, id)
		if err != nil {
			return []string{err.Error()}
		}
		want := slices.Clone(s.records[id])
		for i := range want {
			if seq, known := p.seqs[want[i].Order]; known {
				want[i].Seq = seq
			}
		}
		slices.SortFunc(want, byOrder)
		if d := diff(want, records); d != "" {
			wrong = append(wrong, "Records: -model +ledger\n"+d)
		}
		wrong = append(wrong, checkInvariants(got[i], records, journal, p.gone[id], versionsOf(done, id))...)
	}
	return wrong
}

// everything returns the records of a sale, by order id, and its journal.
func everything(ctx context.Context, l port.Ledger, id sluice.SaleID) (records []port.Record,
	journal []port.Entry, err error,
) {
	err = errors.Join(
		l.Records(ctx, id, func(r port.Record) bool { records = append(records, r); return true }),
		l.PeekJournal(ctx, id, func(e port.Entry) bool { journal = append(journal, e); return true }),
	)
	slices.SortFunc(records, byOrder)
	return records, journal, err
}

func byOrder(a, b port.Record) int { return cmp.Compare(a.Order, b.Order) }

// scriptSteps is the length of a random run.
const scriptSteps = 500

// randomSeeds returns seeds that are always run, and one that never was.
func randomSeeds() []uint64 { return []uint64{1, 2, 3, uint64(time.Now().UnixNano())} }

// playedSeeds returns the seeds that a ledger is tested with: all, or, with -short, the
// one that never was.
func playedSeeds() []uint64 {
	seeds := randomSeeds()
	if testing.Short() {
		return seeds[len(seeds)-1:]
	}
	return seeds
}

// testRandom plays random scripts and has the model judge them.
func testRandom(t *testing.T, h Harness) {
	for i, seed := range playedSeeds() {
		t.Run(fmt.Sprint("seed ", i+1), func(t *testing.T) {
			if err := judge(t, h.New(t), seed, h.NoJournal); err != nil {
				t.Error(err)
			}
		})
	}
}

// variant is a way to run the same operations.
type variant struct {
	Name  string
	New   func(t testing.TB) Open // as of a Harness
	Batch int                     // claims of one call; 0: as many as the operations have, 1 to 100

	noJournal bool // see Harness
}

// equivalent plays the same random operations through every variant, and fails
// unless all of them decide the same: codes, order ids, times.
func equivalent(t *testing.T, variants ...variant) {
	t.Helper()
	for i, seed := range playedSeeds() {
		script := newScript(seed, scriptSteps)
		t.Run(fmt.Sprint("seed ", i+1), func(t *testing.T) {
			var first *player
			for _, v := range variants {
				p, err := play(t, v, v.New(t), script, seed)
				if err != nil {
					t.Errorf("%s: %v", v.Name, err)
					return
				}
				if first == nil {
					first = p
				}
				if d := diff(first.said, p.said); d != "" {
					t.Errorf("seed %d: -%s +%s\n%s", seed, variants[0].Name, v.Name, d)
				}
			}
		})
	}
}
