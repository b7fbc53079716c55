// Package ledgertest is the conformance suite of ledgers. Every ledger passes
// Run. A ledger declares what it lacks (Harness.SharedNodes, Harness.NoJournal), so a
// test is skipped by declaration, never by accident.
//
// The suite judges a ledger in four ways: table cases for each rule (files
// case_*.go), seeded random runs judged by a naive reference model (model.go,
// random.go), the same operations through several ledgers (judge.go), and
// concurrent histories (concurrent.go). faultyLedger (faulty.go) wraps a ledger
// with faults.
//
// Where the port leaves room, the suite fixes the meaning:
//
//   - A Claim call is decided at one instant of the ledger's clock, in whole
//     milliseconds, claim after claim. Later claims of the batch see what the
//     earlier ones took.
//   - A sale that is not loaded or is fenced answers Unavailable to every
//     claim, repeats included.
//   - Apply of a total below the units taken is ErrBelowTaken and changes
//     nothing (I1 holds at every instant).
//   - Apply begins a cooldown when the old terms refuse by window or pause
//     at that instant and the new ones do not (cooldown code: what the old ones
//     said), or when neither refuses, nothing was available under the old
//     total, and something is under the new one (cooldown code: SoldOut). A new
//     cooldown replaces one that still lasts. At CooldownUntil itself it is over.
//   - During a cooldown its code is one refusal more, at that
//     code's place in the order of precedence.
//   - Load empties the journal: what it held must be in the image.
package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Harness makes the ledgers that the suite tests.
type Harness struct {
	// New prepares fresh, empty data and returns how to open ledgers on it.
	// It registers what has to be undone with t.Cleanup.
	New func(t testing.TB) Open
	// SharedNodes: several servers can open the same data at the same time.
	SharedNodes bool
	// NoJournal: an accepted claim is stored in the same step. Its journal is always
	// empty, and asking for it is no error.
	NoJournal bool
}

// Open opens a ledger on the data as the server called node, with the clock as
// the ledger's own. It fails the test if that is impossible, and registers
// Close with t.Cleanup (Close is idempotent, so a test may close it earlier).
// The same node opened again after Close is that server restarted.
type Open func(t testing.TB, node string, clock *Clock) port.Ledger

// Clock is the time of a test. It stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// start is where the clock of every test starts.
var start = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// newClock returns a clock that stands at start.
func newClock() *Clock { return &Clock{now: start} }

// Now returns the time. It is what a ledger's Options.Now is set to.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set moves the clock to a time.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// What a case needs: one server, or several on the same data.
const (
	one     needs = 0
	several needs = 1 << iota
	journal       // of accepted claims that are not stored yet
)

type needs int

// testCase is one test of the suite, run on fresh data.
type testCase struct {
	name  string
	needs needs
	run   func(e *env)
}

// Run runs the whole suite on the harness's ledgers.
func (h Harness) Run(t *testing.T) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Decide", decideCases},
		{"Precedence", precedenceCases},
		{"Replay", replayCases},
		{"Batch", batchCases},
		{"Terms", termsCases},
		{"Cooldown", cooldownCases},
		{"Load", loadCases},
		{"Fence", fenceCases},
		{"Read", readCases},
		{"Recall", recallCases},
		{"Journal", journalCases},
		{"Restart", restartCases},
		{"Release", releaseCases},
		{"Drop", dropCases},
		{"Rate", rateCases},
		{"Faults", faultCases},
		{"Concurrent", concurrentCases},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, tc := range group.cases {
				t.Run(tc.name, func(t *testing.T) {
					if tc.needs&several != 0 && !h.SharedNodes {
						t.Skip("one server at a time uses the data of this backend")
					}
					if tc.needs&journal != 0 && h.NoJournal {
						t.Skip("this backend stores accepted claims at once")
					}
					tc.run(newEnv(t, h))
				})
			}
		})
	}
	t.Run("Random", func(t *testing.T) { testRandom(t, h) })
	t.Run("Equivalent", func(t *testing.T) {
		equivalent(t,
			variant{Name: "as it comes", New: h.New, noJournal: h.NoJournal},
			variant{Name: "one by one", New: h.New, Batch: 1, noJournal: h.NoJournal},
			variant{Name: "by 64", New: h.New, Batch: 64, noJournal: h.NoJournal},
		)
	})
}

// deadline bounds every test, and every step of a script: a ledger that hangs fails
// instead of stopping the run.
const deadline = 60 * time.Second

func newEnv(t *testing.T, h Harness) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	e := &env{
		TB: t, ctx: ctx, clock: newClock(), open: h.New(t), terms: map[sluice.SaleID]sluice.Terms{}, noJournal: h.NoJournal,
	}
	e.ledger = e.open(t, "node-a", e.clock)
	return e
}
