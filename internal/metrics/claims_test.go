package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// The first sales are counted apart, further ones together, and so are those that
// do not exist.
func TestClaimsAreCountedBySale(t *testing.T) {
	m := New(func() []Sale { return nil })
	c := m.Claims(func(sale sluice.SaleID) bool { return strings.HasPrefix(string(sale), "s") },
		func() []Sale { return []Sale{{ID: "s1"}, {ID: "idle"}} }, []string{"bad_request", codeOutcomeUnknown},
		[]string{"body"})
	c.Decided("made-up", sluice.Accepted)
	c.Refused("made-up", "body")
	c.Count("s0", "no such code")
	c.Refused("s0", "no such reason")
	idle := `sluice_claims_total{code="accepted",sale="idle"} 0`
	if text := rendered(m); !strings.Contains(text, idle) || strings.Contains(text, "made-up") ||
		!strings.Contains(text, `sluice_claims_total{code="other",sale="s0"} 1`) {
		t.Errorf("%s", text)
	}
	for _, code := range shownAtZero {
		for _, sale := range []string{"s0", "idle"} {
			line := fmt.Sprintf("sluice_claims_total{code=%q,sale=%q} 0\n", code, sale)
			if !strings.Contains(rendered(m), line) {
				t.Errorf("an alert would miss the first outage: no %s", line)
			}
		}
	}
	if codes, reasons, ok := c.Of("idle"); len(codes)+len(reasons) != 0 || !ok {
		t.Error("what no claim came to has counts, or none are known")
	}
	for i := range mostCounted + 10 {
		sale := sluice.SaleID(fmt.Sprint("s", i))
		c.Decided(sale, sluice.Accepted)
		c.Count(sale, "bad_request")
		c.Refused(sale, "body")
	}
	text := rendered(m)
	for _, want := range []string{
		`sluice_claims_total{code="accepted",sale="other"} 11`, `sluice_claims_total{code="bad_request",sale="s999"} 1`,
		`sluice_claims_refused_total{reason="body",sale="other"} 11`, `sluice_claims_total{code="sold_out",sale="other"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(text, `code="accepted"`); n != mostCounted+1 || strings.Contains(text, `sale="s1000"`) {
		t.Errorf("%d sales are counted apart", n-1)
	}
	if _, _, ok := c.Of("s1001"); ok || c.Label("s1001") != "other" || c.Label("s1") != "s1" {
		t.Error("a sale that is counted with others has counts of its own")
	}
}

// What is recent forgets what was long ago, and a sale that is over gives its place to
// another one when many are counted.
func TestRecentClaims(t *testing.T) {
	over := map[sluice.SaleID]bool{}
	c := New(func() []Sale { return nil }).Claims(func(sale sluice.SaleID) bool { return !over[sale] },
		func() []Sale { return nil }, nil, []string{"body"})
	at := time.Unix(1000, 0)
	recent := func(accepted, body, unnamed int64, since time.Time) {
		t.Helper()
		codes, reasons, n, from := c.Recent("phone")
		if codes["accepted"] != accepted || reasons["body"] != body || n != unnamed || !from.Equal(since) {
			t.Errorf("recently %v, %v, %d since %v; want %d, %d, %d since %v", codes, reasons, n, from, accepted, body,
				unnamed, since)
		}
	}
	c.Refused("phone", "body")
	c.Unnamed("phone")
	recent(0, 1, 1, time.Time{})
	c.Turn(at)
	c.Decided("phone", sluice.Accepted)
	recent(1, 1, 1, time.Time{})
	c.Turn(at.Add(TurnEvery))
	recent(1, 0, 0, at)
	c.Turn(at.Add(2 * TurnEvery))
	recent(0, 0, 0, at.Add(TurnEvery))
	if codes, reasons, _ := c.Of("phone"); codes["accepted"] != 1 || reasons["body"] != 1 {
		t.Errorf("since the start: %v, %v", codes, reasons)
	}
	for i := range mostCounted {
		sale := sluice.SaleID(fmt.Sprint("s", i))
		c.Decided(sale, sluice.Accepted)
		over[sale] = true
	}
	if c.Decided("new", sluice.Accepted); c.Label("new") != "other" {
		t.Fatal("there is room")
	}
	c.Turn(at.Add(3 * TurnEvery))
	if c.Decided("new", sluice.Accepted); c.Label("new") != "new" || c.Label("phone") != "phone" ||
		c.Label("s1") != "other" {
		t.Error("sales that are over keep the others out")
	}
	recent(0, 0, 0, at.Add(2*TurnEvery))
}

func rendered(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// An accepted claim is counted without a lock and without memory.
func TestCountingAllocatesNothing(t *testing.T) {
	c := New(func() []Sale { return nil }).Claims(func(sluice.SaleID) bool { return true }, func() []Sale { return nil },
		nil, nil)
	if n := testing.AllocsPerRun(1000, func() { c.Decided("phone", sluice.Accepted) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCountClaim(b *testing.B) {
	c := New(func() []Sale { return nil }).Claims(func(sluice.SaleID) bool { return true }, func() []Sale { return nil },
		nil, nil)
	for b.Loop() {
		c.Decided("phone", sluice.Accepted)
	}
}
