package demo

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// A third of the first winners pay, a third cancel, a third do nothing; those
// who come after them pay. Trouble on the way is tried again.
func TestLivesTakeTheirCourse(t *testing.T) {
	var mu sync.Mutex
	calls := map[string][]string{} // order: what was done, and by whom
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		id, verb := parts[len(parts)-2], parts[len(parts)-1]
		who := "buyer"
		if r.Header.Get("Authorization") == "Bearer adm" {
			who = "admin"
		}
		mu.Lock()
		defer mu.Unlock()
		calls[id] = append(calls[id], who+" "+verb)
		refuse := func(status int, code string) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(api.Problem{Status: status, Code: code})
		}
		status := map[string]sluice.Status{"pay": sluice.Paid, "cancel": sluice.Cancelled, "refund": sluice.Refunded}[verb]
		switch n := len(calls[id]); {
		case id == order(0) && n == 1:
			refuse(http.StatusConflict, api.CodeOrderQueued)
			return
		case id == order(3) && n == 1:
			panic(http.ErrAbortHandler)
		case id == order(4):
			refuse(http.StatusConflict, api.CodeOrderEnded)
			return
		case id == order(6) && verb == "pay":
			status = sluice.RefundDue
		case id == order(7):
			refuse(http.StatusForbidden, api.CodeForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(api.Order{Status: status})
	}))
	defer srv.Close()
	admin := must.Get(client.New(srv.URL, client.Options{AdminKey: "adm"}))(t)
	d := &run{Options: Options{Stock: 9, Window: time.Second}, server: &site{url: srv.URL}, client: admin}
	d.Crowd.Secret = []byte("0123456789abcdef0123456789abcdef")
	l := newLives(d)
	l.start(t.Context())
	for i := range 11 {
		l.accept(loadgen.Promise{Buyer: i, Order: sluice.OrderID(order(i))})
	}
	l.stop()

	told := map[string]sluice.Status{}
	for id, status := range l.seen {
		told[string(id)] = status
	}
	want := map[string]sluice.Status{
		order(0): sluice.Paid, order(3): sluice.Paid, order(6): sluice.Refunded, order(9): sluice.Paid,
		order(10): sluice.Paid,
		order(1):  sluice.Cancelled, order(4): sluice.Expired,
	}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	wantCalls := map[string][]string{
		order(0): {"admin pay", "admin pay"}, order(3): {"admin pay", "admin pay"}, order(6): {"admin pay", "admin refund"},
		order(9): {"admin pay"}, order(10): {"admin pay"},
		order(1): {"buyer cancel"}, order(4): {"buyer cancel"}, order(7): {"buyer cancel"},
	}
	if d := cmp.Diff(wantCalls, calls); d != "" {
		t.Error(d)
	}
	if err := l.trouble(); err == nil || !strings.Contains(err.Error(),
		"1 payment or cancellation stayed without an answer, the first: cancel "+order(7)+": Forbidden (forbidden)") {
		t.Error(err)
	}
	if l.paid.Load() != 4 || l.cancelled.Load() != 1 || l.accepted != 11 {
		t.Errorf("%d paid, %d cancelled, %d accepted", l.paid.Load(), l.cancelled.Load(), l.accepted)
	}
}

func order(n int) string {
	return "s1." + strings.Repeat("0", 30) + string(rune('0'+n/10)) + string(rune('0'+n%10))
}

// No buyer comes back while more winners wait than can be paid.
func TestEnoughWaitsForTheSettlers(t *testing.T) {
	l := newLives(&run{Options: Options{Stock: 1000, Window: time.Second}})
	l.moved.Store(time.Now().UnixNano())
	if l.enough() {
		t.Error("nothing is paid, and that is enough")
	}
	for range crowded {
		l.accept(loadgen.Promise{Order: "s1.x"})
		l.accept(loadgen.Promise{Order: "s1.x"})
	}
	asked := make(chan bool)
	go func() { asked <- l.enough() }()
	select {
	case <-asked:
		t.Error("a crowd waits to be paid, and more come")
	case <-time.After(20 * time.Millisecond):
	}
	for l.open > 0 {
		l.done(nil)
	}
	if <-asked {
		t.Error("nothing is paid, and that is enough")
	}
	l.paid.Store(1000)
	if !l.enough() {
		t.Error("all is paid, and that is not enough")
	}
	l.paid.Store(999)
	l.moved.Store(time.Now().Add(-time.Hour).UnixNano())
	if !l.enough() {
		t.Error("nothing has happened for an hour, and that is not enough")
	}
	if err := l.trouble(); err != nil {
		t.Error(err)
	}
	l.done(errors.New("lost"))
	if l.trouble() == nil {
		t.Error("trouble is forgotten")
	}
}

// Each check from outside goes red on what it is there for.
func TestProofOfLives(t *testing.T) {
	sound := func() *proof {
		p := &proof{
			run:   &run{Options: Options{Stock: 3, Window: time.Second}},
			lives: &lives{seen: map[sluice.OrderID]sluice.Status{"a": sluice.Paid, "b": sluice.Cancelled}},
		}
		p.lives.back = &loadgen.Comeback{Left: 5}
		p.out = &loadgen.Outcome{Promises: make([]loadgen.Promise, 5)}
		p.out.Decisions = loadgen.Decisions{sluice.Accepted: 3, sluice.SoldOut: 7}
		p.stored = map[sluice.OrderID]kept{
			"a": {"1", sluice.Paid}, "b": {"2", sluice.Cancelled}, "c": {"3", sluice.Expired}, "d": {"4", sluice.Paid},
			"e": {"5", sluice.Paid},
		}
		return p
	}
	for name, tc := range map[string]struct {
		available, taken int64
		twice            []string
		damage           func(*proof)
		bad              []string
	}{
		"sound":           {0, 3, nil, func(*proof) {}, nil},
		"a unit too many": {1, 3, nil, func(p *proof) { p.lives.back.Left = 0 }, []string{"I2", "I7"}},
		"a unit lost on its way back": {0, 3, nil, func(p *proof) {
			delete(p.stored, "e")
			p.out.Promises = p.out.Promises[:4]
		}, []string{"I2", "I7"}},
		"the ledger holds more": {0, 4, nil, func(*proof) {}, []string{"I2"}},
		"an order still pending": {0, 3, nil, func(p *proof) {
			p.stored["e"] = kept{"5", sluice.Pending}
		}, []string{"I2"}},
		"a paid order expired all the same": {0, 3, nil, func(p *proof) {
			p.stored["a"] = kept{"1", sluice.Expired}
		}, []string{"I2", "I6", "I7"}},
		"units returned twice": {
			0, 3,
			[]string{"c returned its units 2 times"},
			func(*proof) {},
			[]string{"I6"},
		},
		"available, and people went without": {1, 2, nil, func(p *proof) {
			p.stored["e"] = kept{"5", sluice.Cancelled}
		}, []string{"I7"}},
		"available, and no buyer wants it": {1, 2, nil, func(p *proof) {
			p.stored["e"] = kept{"5", sluice.Cancelled}
			p.lives.back.Left = 0
		}, nil},
		"sold out was said too early": {1, 2, nil, func(p *proof) {
			p.stored = map[sluice.OrderID]kept{"a": {"1", sluice.Paid}, "d": {"4", sluice.Paid}}
			p.lives.seen, p.lives.back.Left, p.out.Promises = nil, 0, p.out.Promises[:2]
		}, []string{"I7"}},
	} {
		p := sound()
		tc.damage(p)
		life := p.figures(tc.available)
		var bad []string
		for _, c := range []sluice.AuditCheck{p.conserved(&life, tc.taken), p.oneEnd(tc.twice, 2), p.soldAgain(&life)} {
			if !c.OK {
				bad = append(bad, c.ID)
			}
		}
		if !slices.Equal(bad, tc.bad) {
			t.Errorf("%s: %v fail, want %v", name, bad, tc.bad)
		}
	}
	if n := returns([]api.OrderChange{
		{From: "queued", To: "pending"},
		{From: "pending", To: "refund_due"},
		{From: "refund_due", To: "refunded"},
	}); n != 1 {
		t.Errorf("a late payment and its refund return the units %d times", n)
	}
	if n := returns([]api.OrderChange{{From: "pending", To: "cancelled"}, {From: "pending", To: "expired"}}); n != 2 {
		t.Errorf("two endings count %d", n)
	}
}
