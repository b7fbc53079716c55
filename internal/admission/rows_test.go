package admission

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// silent is a store that does not answer.
type silent struct{ port.SaleStore }

func (silent) SelectSales(context.Context, port.SaleFilter) ([]sluice.Sale, error) {
	return nil, errors.New("down")
}

func (silent) Sale(context.Context, sluice.SaleID) (sluice.Sale, error) {
	return sluice.Sale{}, errors.New("down")
}

// A server that has started while the store does not answer asks of buyers what
// it remembers of the sale.
func TestRulesHoldWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := sluice.BuyerRate{Requests: 1, PerS: 86_400}
		shared := day
		shared.Shared = true
		for name, c := range map[string]struct {
			rules *sluice.Rules
			want  []string
			asked int
		}{
			"none":           {&sluice.Rules{}, []string{"accepted", "accepted"}, 2},
			"not remembered": {nil, []string{"unavailable", "unavailable"}, 0},
			"a rate":         {&sluice.Rules{BuyerRate: day}, []string{"accepted", "rate_limited 24h0m0s"}, 1},
			"a shared rate":  {&sluice.Rules{BuyerRate: shared}, []string{"accepted", "rate_limited 24h0m0s"}, 1},
			"a ticket": {
				&sluice.Rules{Ticket: sluice.Ticket{BeforeS: 60}},
				[]string{"this sale wants a purchase ticket; POST /v1/sales/{sale}/ticket gives one, to be sent in the header " +
					"Sluice-Ticket"},
				0,
			},
			"by invitation": {
				&sluice.Rules{Eligibility: sluice.EligibleToken},
				[]string{`this sale is for invited buyers: the token's "sluice_sales" does not name it`},
				0,
			},
			"by a list": {&sluice.Rules{Eligibility: sluice.EligibleList}, []string{"unavailable"}, 0},
		} {
			ledger := &slowLedger{}
			remembered := map[sluice.SaleID]sluice.Rules{"another": {}}
			if c.rules != nil {
				remembered["sale"] = *c.rules
			}
			board := NewBoard(noReadings{}, silent{}, BoardOptions{Rules: remembered})
			g := NewGate(board, NewBatcher(ledger, BatcherOptions{Limiter: &sharedLimiter{}}), noArchive{})
			g.Guard(&Eligibility{Lists: NewLists(&shelf{}, nil, nil)}, forgetful{}) // lists that were never read
			for i, want := range c.want {
				if got := try(g, "ann", home); got != want {
					t.Errorf("%s: try %d: %s, want %s", name, i, got, want)
				}
			}
			if n := len(ledger.sizes()); n != c.asked {
				t.Errorf("%s: the ledger was asked %d times, want %d", name, n, c.asked)
			}
		}
	})
}

// Rules are passed on when one has changed, and only then.
func TestRulesAreTold(t *testing.T) {
	var told []map[sluice.SaleID]sluice.Rules
	sale := sluice.Sale{ID: "s", Epoch: 1, LoadedEpoch: 1, Terms: sluice.Terms{Version: 1}}
	store := &rows{list: []sluice.Sale{sale}}
	b := NewBoard(noReadings{}, store, BoardOptions{RulesChanged: func(all map[sluice.SaleID]sluice.Rules) {
		told = append(told, maps.Clone(all))
	}})
	list := func(change func(*sluice.Sale), want int) {
		t.Helper()
		change(&sale)
		store.list, store.one = []sluice.Sale{sale}, sale
		if err := b.ReadSales(t.Context()); err != nil || len(told) != want {
			t.Fatalf("told %d times, want %d: %v, %v", len(told), want, told, err)
		}
	}
	list(func(*sluice.Sale) {}, 1)
	list(func(*sluice.Sale) {}, 1)
	list(func(s *sluice.Sale) { s.Version, s.Taken = 2, 7 }, 1)
	list(func(s *sluice.Sale) { s.Version, s.Rules.AdmissionRatio = 3, 2 }, 2)
	if told[1]["s"].AdmissionRatio != 2 {
		t.Errorf("told %v", told[1])
	}
	sale.Version, sale.Rules = 4, sluice.Rules{}
	store.one = sale
	if _, err := b.Reload(t.Context(), "s"); err != nil || len(told) != 3 || told[2]["s"] != (sluice.Rules{}) {
		t.Errorf("told %v, %v", told, err)
	}
	sale.ArchivedAt = time.Unix(1, 0)
	list(func(*sluice.Sale) {}, 4)
	if len(told[3]) != 0 {
		t.Errorf("told %v", told[3])
	}
}
