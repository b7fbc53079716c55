package tickets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/outbound"
)

// Bounds of what one service can cost.
const (
	// maxAtATime is how many questions one service is asked at a time, and maxWaiting
	// how many more wait for a place, for the timeout of their rule at most.
	maxAtATime = 64
	maxWaiting = 16 * maxAtATime
	// A service that has failed for failuresToRest different buyers since its last answer, which is livesFor
	// ago at least, is left alone for restFor, and counts as failed; then one question finds out. So a few
	// buyers for whom it is slow do not decide for the others: one answer shows that it lives.
	failuresToRest = 20
	livesFor       = 5 * time.Second
	restFor        = time.Second

	maxAnswer = 4 << 10 // bytes
	maxReason = 200     // bytes
)

// Question is what the service is asked: POST, as JSON.
type Question struct {
	Sale    sluice.SaleID  `json:"sale"`
	Buyer   sluice.BuyerID `json:"buyer"`
	Address string         `json:"address"` // of the buyer's network
	Token   string         `json:"token"`   // what the page got from a captcha, unread; may be empty
}

// Verdict is what comes of a question.
type Verdict struct {
	Allow  bool
	Reason string // the service's, for the buyer; may be empty
	// Failed says why the service did not judge; then Allow is the sale's
	// policy. Nil if it did.
	Failed error
	Took   time.Duration // of the service; 0: it was not asked
}

// Asker asks services. Make one with New. It is safe for concurrent use.
type Asker struct {
	client *http.Client
	log    *slog.Logger
	now    func() time.Time

	mu       sync.Mutex
	services map[string]*service // by URL
	asking   map[asked]bool      // about whom there is a question now
	judged   lately              // what came of a proof of work
}

// asked is about whom a question is.
type asked struct {
	sale  sluice.SaleID
	buyer sluice.BuyerID
}

// service is what is known of one URL.
type service struct {
	slots   chan struct{}
	waiting atomic.Int64 // for one of them

	mu       sync.Mutex
	failed   map[sluice.BuyerID]struct{} // for whom it failed since it answered; failuresToRest at most
	answered time.Time                   // the last time
	rests    time.Time                   // not asked before this; zero: it does not rest
}

// NewAsker returns an Asker. Log may be nil.
func NewAsker(log *slog.Logger) *Asker {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = outbound.Dialer().DialContext
	transport.Proxy = nil // the guard would see the address of a proxy of the environment
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxAtATime, maxAtATime
	transport.MaxResponseHeaderBytes = 16 << 10
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Asker{
		log: log, now: time.Now, services: map[string]*service{}, asking: map[asked]bool{},
		client: &http.Client{
			Transport: transport,
			// No redirects: buyers' data goes to the configured URL only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close lets go of idle connections.
func (a *Asker) Close() { a.client.CloseIdleConnections() }

// ErrBusy: there was no place for a question. It says nothing about the buyer, nor about the service.
var ErrBusy = errors.New("too many questions wait for the risk service")

// ErrUnderWay: there is a question about this buyer and sale, which the service has not answered yet.
var ErrUnderWay = errors.New("an earlier request of this buyer still waits for the risk service")

// errRests: the service was not asked.
var errRests = errors.New("it has failed for all buyers lately, and is left alone for a moment")

// Ask asks the service of the rule, once it has a place for the question. Each takes the rule's timeout at
// most. It comes to a verdict, or is ErrBusy or ErrUnderWay.
//
// Proof is the challenge that the buyer has solved for it; empty: none. The service judges it once: who
// hands it in again gets the same verdict.
func (a *Asker) Ask(ctx context.Context, rule sluice.Risk, q Question, proof string) (v Verdict, err error) {
	who := asked{q.Sale, q.Buyer}
	a.mu.Lock()
	before, known := a.judged.get(proof)
	busy := a.asking[who]
	if !known && !busy {
		a.asking[who] = true
	}
	a.mu.Unlock()
	switch {
	case known:
		before.Took = 0
		return before, nil
	case busy:
		return v, ErrUnderWay
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.asking, who)
		if proof != "" && err == nil && v.Failed == nil {
			a.judged.put(proof, v, a.now())
		}
	}()
	s := a.service(rule.URL)
	if !s.enter(ctx, timeout(rule)) {
		return v, ErrBusy
	}
	defer func() { <-s.slots }()
	began := a.now()
	v.Failed = s.ready(began)
	if v.Failed == nil {
		v, v.Failed = a.ask(ctx, rule, q)
		v.Took = max(a.now().Sub(began), 1)
		// A buyer who left says nothing about the service.
		if v.Failed == nil || ctx.Err() == nil {
			s.note(q.Buyer, v.Failed != nil, a.now(), func() {
				a.log.Warn("a risk service fails and is left alone for a moment", "url", Address(rule.URL), "error", v.Failed)
			})
		}
	}
	if v.Failed != nil {
		v.Allow = rule.OnFailure == sluice.Allow
	}
	return v, nil
}

// enter waits for a place, and reports whether there was one in time.
func (s *service) enter(ctx context.Context, patience time.Duration) bool {
	select {
	case s.slots <- struct{}{}:
		return true
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxWaiting {
		return false
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case s.slots <- struct{}{}:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

func timeout(rule sluice.Risk) time.Duration { return time.Duration(rule.TimeoutMS) * time.Millisecond }

// lately remembers the verdicts of proofs for as long as those can be handed in, and maxLately of them
// at least; then the oldest may be judged again.
type lately struct {
	now, before map[string]Verdict
	since       time.Time // of now
}

const maxLately = 20_000

func (l *lately) get(proof string) (v Verdict, known bool) {
	if v, known = l.now[proof]; !known {
		v, known = l.before[proof]
	}
	return v, known
}

func (l *lately) put(proof string, v Verdict, now time.Time) {
	if l.now == nil || len(l.now) >= maxLately || now.Sub(l.since) > ChallengeLife {
		l.now, l.before, l.since = map[string]Verdict{}, l.now, now
	}
	l.now[proof] = v
}

// maxServices bounds what is remembered of services that are no longer in use.
const maxServices = 1000

func (a *Asker) service(url string) *service {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.services[url]
	if s == nil {
		if len(a.services) >= maxServices {
			clear(a.services)
		}
		s = &service{slots: make(chan struct{}, maxAtATime), failed: map[sluice.BuyerID]struct{}{}}
		a.services[url] = s
	}
	return s
}

// ready reports whether the service may be asked now. The first one to ask
// after a rest keeps the others away until it knows more.
func (s *service) ready(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.rests.IsZero():
		return nil
	case now.Before(s.rests):
		return errRests
	}
	s.rests = now.Add(restFor)
	return nil
}

// note takes in an outcome, and calls resting when the service begins to rest.
func (s *service) note(buyer sluice.BuyerID, failed bool, now time.Time, resting func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !failed {
		clear(s.failed)
		s.answered, s.rests = now, time.Time{}
		return
	}
	if len(s.failed) < failuresToRest {
		s.failed[buyer] = struct{}{}
	}
	if len(s.failed) < failuresToRest || now.Sub(s.answered) < livesFor {
		return
	}
	if s.rests.IsZero() {
		resting()
	}
	s.rests = now.Add(restFor)
}

func (a *Asker) ask(ctx context.Context, rule sluice.Risk, q Question) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout(rule))
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil {
		return Verdict{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, rule.URL, bytes.NewReader(body))
	if err != nil {
		return Verdict{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "sluice")
	response, err := a.client.Do(request)
	if err != nil {
		return Verdict{}, cause(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Verdict{}, err
	case response.StatusCode != http.StatusOK:
		return Verdict{}, fmt.Errorf("it answers %s; want 200", response.Status)
	case len(answer) > maxAnswer:
		return Verdict{}, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	}
	var said struct {
		Allow  *bool  `json:"allow"`
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(answer, &said); err != nil || said.Allow == nil {
		return Verdict{}, errors.New(`its answer is not {"allow": true or false, "reason": "..."}`)
	}
	return Verdict{Allow: *said.Allow, Reason: clean(said.Reason)}, nil
}

// clean keeps a reason short and on one line.
func clean(reason string) string {
	for len(reason) > maxReason {
		_, size := utf8.DecodeLastRuneInString(reason)
		reason = reason[:len(reason)-size]
	}
	for _, r := range reason {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ""
		}
	}
	return reason
}

// cause takes off what repeats the URL, which may hold a secret.
func cause(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// Address is a URL as it may be logged: its query may hold a secret.
func Address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
