package loadgen

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// restock puts more units on the shelf.
func (s *shop) restock(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stock += n
}

func never() bool { return false }

func TestComeBackBuysWhatReturnedWithTheSameKey(t *testing.T) {
	s := newShop(t, 10)
	var told []Promise
	out, c := rush(t, s, func(o *Options) {
		o.Buyers, o.Again, o.Remember = 100, 0.5, true
		o.Accepted = func(p Promise) { told = append(told, p) }
	})
	keys := len(s.tries)
	s.restock(30)
	enough := func() bool { return len(c.Promises()) == 40 }
	back := c.ComeBack(t.Context(), 5000, enough)
	if back.Buyers != 90 || back.Left != 60 || back.Decisions[sluice.Accepted] != 30 || back.Errors != 0 ||
		back.Requests < 30 {
		t.Errorf("%+v", back)
	}
	if len(s.orders) != 40 || len(s.buyers) != 40 || len(s.tries) != keys {
		t.Errorf("%d orders of %d buyers, %d keys after %d", len(s.orders), len(s.buyers), len(s.tries), keys)
	}
	if len(told) != 40 || len(out.Promises) != 10 {
		t.Errorf("told of %d promises, the rush had %d", len(told), len(out.Promises))
	}
	out.Promises = c.Promises()
	checkPromises(t, out, s)

	// What returns later finds the rest; when everybody has one, it ends.
	s.restock(1000)
	if rest := c.ComeBack(t.Context(), 5000, never); rest.Buyers != 60 || rest.Left != 0 || len(s.buyers) != 100 {
		t.Errorf("%+v, %d buyers have one", rest, len(s.buyers))
	}
	if none := c.ComeBack(t.Context(), 5000, never); none.Buyers != 0 || none.Requests != 0 {
		t.Errorf("%+v", none)
	}
}

func TestComeBackSurvivesLostReplies(t *testing.T) {
	s := newShop(t, 0)
	_, c := rush(t, s, func(o *Options) { o.Buyers, o.Again, o.Remember = 20, 0, true })
	s.after = func(n int, w http.ResponseWriter) bool {
		if n == 2 { // the first time in the comeback
			panic(http.ErrAbortHandler)
		}
		return false
	}
	s.restock(20)
	if back := c.ComeBack(t.Context(), 5000, never); back.Left != 0 || back.Requests != 40 || len(s.orders) != 20 ||
		len(c.Promises()) != 20 {
		t.Errorf("%+v, %d orders, %d promises", back, len(s.orders), len(c.Promises()))
	}
}

// Those who hear that it is over do not come again; the others go when ctx ends.
func TestComeBackEnds(t *testing.T) {
	s := newShop(t, 0)
	_, c := rush(t, s, func(o *Options) { o.Buyers, o.Remember = 50, true })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if back := c.ComeBack(ctx, 5000, never); back.Left != 50 || back.Decisions[sluice.SoldOut] < 50 ||
		back.Decisions[sluice.SoldOut] > 150 {
		t.Errorf("fifty buyers, each at most every %s: %+v", minVisit, back)
	}
	s.mu.Lock()
	s.trouble = func(_ int, w http.ResponseWriter) bool { refuse(w, 409, "closed"); return true }
	s.mu.Unlock()
	if back := c.ComeBack(t.Context(), 5000, never); back.Left != 50 || back.Decisions[sluice.Closed] != 50 ||
		back.Requests != 50 {
		t.Errorf("%+v", back)
	}
}
