package httpapi

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// offLedger is a ledger whose clock is off against this machine's, with one
// sale that opens by it.
type offLedger struct {
	port.Reader
	off   time.Duration
	opens time.Time
}

func (l *offLedger) terms() sluice.Terms {
	return sluice.Terms{Version: 1, Total: 5, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: l.opens}
}

func (l *offLedger) Read(_ context.Context, ids []sluice.SaleID) ([]port.Reading, error) {
	readings := make([]port.Reading, len(ids))
	for i, id := range ids {
		readings[i] = port.Reading{
			Sale: id, Now: time.Now().Add(l.off).UTC().Truncate(time.Millisecond), Loaded: true,
			Epoch: 1, Terms: l.terms(),
		}
	}
	return readings, nil
}

type offStore struct {
	port.Store
	ledger *offLedger
	off    time.Duration // of its clock against this machine's
}

func (s offStore) Clock(context.Context) (time.Time, error) { return time.Now().Add(s.off), nil }

func (s offStore) Sale(_ context.Context, id sluice.SaleID) (sluice.Sale, error) {
	return sluice.Sale{ID: id, Terms: s.ledger.terms(), Epoch: 1, LoadedEpoch: 1}, nil
}

// GET /v1/time is the clock that opens sales, which need not be this server's:
// it has come to the opening when the sale has opened, not ten seconds later.
func TestTimeIsTheLedgers(t *testing.T) {
	for _, off := range []time.Duration{0, 10 * time.Second, -10 * time.Second} {
		// open from now on, by its clock
		ledger := &offLedger{off: off, opens: time.Now().Add(off).Truncate(time.Millisecond)}
		board := admission.NewBoard(ledger, offStore{ledger: ledger}, admission.BoardOptions{Encode: EncodeSale})
		s := New(Options{Board: board})
		tell := func() time.Time {
			t.Helper()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/time", nil))
			var now api.ServerTime
			if err := json.Unmarshal(w.Body.Bytes(), &now); err != nil || w.Code != 200 ||
				w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("%d %s %v, %v", w.Code, w.Body, w.Header(), err)
			}
			return now.ServerTime.Time
		}
		between := func(what string, low, got, high time.Time) {
			t.Helper()
			if low = low.Truncate(time.Millisecond); got.Before(low) || got.After(high) {
				t.Errorf("ledger off by %v, %s: told %v, want %v to %v", off, what, got, low, high)
			}
		}
		before := time.Now()
		between("before it was read", before, tell(), time.Now())

		asked := time.Now()
		view := must.Get(board.Reload(t.Context(), "phone"))(t)
		doubt := time.Since(asked)
		if got := view.Body.(*saleBody).sale.State; got != sluice.StateOpen {
			t.Fatalf("the sale is %s, want open", got)
		}
		for range 3 {
			low := time.Now().Add(off - doubt - time.Millisecond)
			got := tell()
			between("after", low, got, time.Now().Add(off+time.Millisecond))
			if got.Before(ledger.opens.Add(-doubt - time.Millisecond)) {
				t.Errorf("ledger off by %v: the sale is open, and the time is %v, %v before it opens",
					off, got, ledger.opens.Sub(got))
			}
		}
	}
}

// The check of clocks that differ: a warning that says what it affects. It fails
// no check, since no sale opens or closes wrongly for it.
func TestSaleCheckOfClocks(t *testing.T) {
	for _, c := range []struct {
		ledger, store time.Duration // off against this server
		want          [2]api.CheckStatus
	}{
		{0, 0, [2]api.CheckStatus{api.CheckOK, api.CheckOK}},
		{time.Minute, 0, [2]api.CheckStatus{api.CheckWarn, api.CheckWarn}},
		{time.Minute, time.Minute, [2]api.CheckStatus{api.CheckWarn, api.CheckOK}},
		{0, -time.Minute, [2]api.CheckStatus{api.CheckOK, api.CheckWarn}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ledger := &offLedger{off: c.ledger, opens: time.Now().Add(c.ledger).Truncate(time.Millisecond)}
			store := offStore{ledger: ledger, off: c.store}
			board := admission.NewBoard(ledger, store, admission.BoardOptions{Encode: EncodeSale})
			view := must.Get(board.Reload(t.Context(), "phone"))(t)
			check := &saleCheck{server: New(Options{Board: board, Ledger: ledger, Store: store}), view: view}
			check.ledgerClock(t.Context())
			check.storeClock(t.Context())
			for i, judged := range []string{"buyers' tokens", "payments and expiry"} {
				got := check.answer.Checks[i]
				if got.Status != c.want[i] || strings.Contains(got.Right, judged) != (c.want[i] == api.CheckWarn) {
					t.Errorf("ledger off by %v, store by %v: %+v, want %s", c.ledger, c.store, got, c.want[i])
				}
			}
		})
	}
}
