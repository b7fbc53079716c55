package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
)

const (
	// mostLive bounds the streams of all pages, mostOfOne those of one admin, and liveFor each of them: a page asks
	// again.
	mostLive  = 200
	mostOfOne = 100
	liveFor   = 15 * time.Minute
	// liveTail is how much of the curve each message has: what servers keep late is in it once it is there.
	liveTail = 20 * time.Second
	// livePatience bounds what a message is made of, and liveSlow how long a browser may take to read one.
	livePatience = 2 * time.Second
	liveSlow     = 10 * time.Second
)

// live tells pages of sales what happens there, once a second. However many pages show a sale, it is asked for once.
type live struct {
	c    *Console
	over chan struct{} // closed when the server stops

	pages *turns

	mu    sync.Mutex
	feeds map[string]*feed
}

// feed is what one sale is, for the pages that show it.
type feed struct {
	pages map[chan []byte]struct{}
	stop  context.CancelFunc
}

func newLive(c *Console) *live {
	return &live{c: c, over: make(chan struct{}), pages: newTurns(mostLive, mostOfOne), feeds: map[string]*feed{}}
}

// Close ends all streams, soon.
func (c *Console) Close() error {
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	select {
	case <-c.live.over:
	default:
		close(c.live.over)
	}
	return nil
}

// join returns the messages of a sale for an admin's page, and what ends them; nil: there are too many pages.
func (l *live) join(sale, admin string) (messages chan []byte, leave func()) {
	end := l.pages.take(admin)
	if end == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.feeds[sale]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &feed{pages: map[chan []byte]struct{}{}, stop: stop}
		l.feeds[sale] = f
		go l.run(ctx, sale, f)
	}
	messages = make(chan []byte, 1)
	f.pages[messages] = struct{}{}
	return messages, func() {
		end()
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(f.pages, messages); len(f.pages) == 0 {
			f.stop()
			delete(l.feeds, sale)
		}
	}
}

// run makes the messages until the last page has left.
func (l *live) run(ctx context.Context, sale string, f *feed) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		message := l.message(ctx, sluice.SaleID(sale))
		l.mu.Lock()
		for page := range f.pages {
			select {
			case page <- message:
			default: // it has not read the last one
			}
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-l.over:
			return
		case <-every.C:
		}
	}
}

// tick is one message. What is null is not known.
type tick struct {
	Signature string           `json:"signature"` // what the server makes of the page is another if it changes
	Stale     bool             `json:"stale"`     // the server does not know more
	Taken     int64            `json:"taken"`
	Left      *int64           `json:"left"`
	Sold      int64            `json:"sold"` // percent; -1: it has no total
	Stored    int64            `json:"stored"`
	Backlog   int64            `json:"backlog"`
	Orders    *api.OrderCounts `json:"orders"`
	Accepted  *int64           `json:"accepted_per_s"`
	Claims    *int64           `json:"claims_per_s"`
	InFlight  *int64           `json:"in_flight"`
	P99Ms     *float64         `json:"p99_ms"`
	Curve     *api.Curve       `json:"curve"`
}

// message says what the sale is now.
func (l *live) message(ctx context.Context, id sluice.SaleID) []byte {
	ctx, cancel := context.WithTimeout(auth.SignIn(ctx, auth.Admin{Name: "console", Role: sluice.Viewer}), livePatience)
	defer cancel()
	var t tick
	if status, err := l.c.client.Status(ctx, id); err == nil {
		for _, c := range status.Conditions {
			t.Signature += c.Name + " "
		}
	}
	if sale, err := l.c.client.AdminSale(ctx, id); err == nil {
		t.of(&sale)
	} else {
		t.Stale = true
	}
	if c, err := l.c.client.Curve(ctx, id, l.c.Now().Add(-liveTail), time.Time{}); err == nil && !t.Stale {
		t.Curve = &c
		t.last()
	}
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and texts
	}
	return fmt.Appendf(nil, "data: %s\n\n", text)
}

// of takes the figures of a sale.
func (t *tick) of(sale *api.AdminSale) {
	t.Signature += fmt.Sprint(sale.State, sale.TermsVersion)
	t.Taken, t.Sold, t.Stored, t.Backlog = sale.Taken, -1, sale.StoredTaken, sale.Backlog
	t.Orders = sale.Orders
	if sale.Total != nil {
		left := *sale.Total - sale.Taken
		if t.Left = &left; *sale.Total > 0 {
			t.Sold = sale.Taken * 100 / *sale.Total
		}
	}
}

// last takes the figures of a second from the curve that all servers have told of by now.
func (t *tick) last() {
	var claims, accepted, inFlight int64
	if i := t.Curve.Settled(); i >= 0 {
		claims = t.Curve.Claims(i)
		accepted, inFlight = t.Curve.Answers["accepted"][i], t.Curve.InFlight[i]
		if p99 := t.Curve.P99Ms[i]; p99 > 0 {
			t.P99Ms = &p99
		}
	}
	t.Claims, t.Accepted, t.InFlight = &claims, &accepted, &inFlight
}

// stream answers with the messages of a sale.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	if v.Admin.Role == 0 {
		http.Error(w, "sign in first", http.StatusUnauthorized)
		return
	}
	_, err := c.client.AdminSale(v.ctx, sluice.SaleID(r.PathValue("id")))
	if statusOf(err) == http.StatusNotFound {
		http.Error(w, "there is no such sale", http.StatusNotFound)
		return
	}
	messages, leave := c.live.join(r.PathValue("id"), v.Admin.Name)
	if messages == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	enough := time.NewTimer(liveFor)
	defer enough.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-c.live.over:
			return
		case <-enough.C:
			return
		case message := <-messages:
			if _, ok := c.sessions.read(v.cookie); !ok { // the key was withdrawn, or somebody signed out
				return
			}
			_ = control.SetWriteDeadline(time.Now().Add(liveSlow))
			if _, err := w.Write(message); err != nil || control.Flush() != nil {
				return
			}
		}
	}
}
