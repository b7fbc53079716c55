package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/outbound"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/lock"
)

// SenderStore is what a Sender needs of the store.
type SenderStore interface {
	Webhooks(ctx context.Context) ([]sluice.Webhook, error)
	Webhook(ctx context.Context, id sluice.WebhookID) (sluice.Webhook, error)
	DisableWebhook(ctx context.Context, id sluice.WebhookID, why string) (sluice.Webhook, error)
	Advance(ctx context.Context, id sluice.WebhookID, p port.Progress) (bool, error)
	DueDeliveries(ctx context.Context, id sluice.WebhookID, limit int) ([]sluice.Delivery, error)
	HeldSubjects(ctx context.Context, id sluice.WebhookID, subjects []string) ([]string, error)
	Events(ctx context.Context, after int64, limit int) ([]sluice.Event, error)
	LastEvent(ctx context.Context) (int64, error)
	lock.Backend
}

// Message is an event on its way to a webhook.
type Message struct {
	URL  string
	ID   string    // of the event: the same in every attempt
	At   time.Time // of the attempt
	Key  []byte    // signs it
	Body []byte
}

// Answer is what the receiver said.
type Answer struct {
	Status     int           // of HTTP
	RetryAfter time.Duration // how long it asks to wait; 0 when it does not
}

// Observer receives the outcomes of attempts, for the metrics.
type Observer interface {
	// Tried: delivered and failed attempts, and events that were given up.
	Tried(delivered, failed, parked int)
	// Lag is how many events wait behind a webhook's cursor, by webhook, as far
	// as this server sends.
	Lag(lag map[sluice.WebhookID]int64)
}

// SenderOptions of a Sender. Node, Post and Encode are needed.
type SenderOptions struct {
	Node string // this server
	// Post makes one attempt. An error means that no answer came.
	Post func(ctx context.Context, m *Message) (Answer, error)
	// Encode makes the body of an event.
	Encode func(e *sluice.Event) ([]byte, error)

	// Timeout bounds one attempt; default 10 s.
	Timeout time.Duration
	// Backoff is the waits before each retry of an event; then it is given up.
	// Each is made up to a fifth longer or shorter. Default: ten retries in
	// about 28 hours.
	Backoff []time.Duration
	// Probe and MaxProbe bound the waits between attempts while a webhook is
	// down; default 1 s, which doubles, and 1 min.
	Probe, MaxProbe time.Duration
	// Margin is how much longer a lease is than an attempt; default 10 s. An
	// attempt is begun only if the lease covers it, so two servers that are both
	// well do not send at the same time. It is also how long the others wait
	// for a server that has died, besides Timeout.
	Margin time.Duration
	// Poll is how often the store is asked; default 500 ms, and up to three times
	// as long while there is no webhook. Wake is faster.
	Poll time.Duration

	Observer Observer     // default: none
	Log      *slog.Logger // default: silent
}

// Sender posts events to webhooks. Every webhook has its own loop, so one that
// is slow or down delays no other. See round for what it promises.
type Sender struct {
	store SenderStore
	SenderOptions

	until atomic.Int64 // the end of the lease, in nanoseconds of this clock

	mu    sync.Mutex
	loops map[sluice.WebhookID]*running
	lag   map[sluice.WebhookID]int64
}

// running is the loop of one webhook.
type running struct {
	stop context.CancelFunc
	bell loop.Bell
}

// defaultBackoff is the waits before the retries of an event.
var defaultBackoff = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour,
}

// NewSender returns a Sender. Run it.
func NewSender(store SenderStore, o SenderOptions) *Sender {
	o.Timeout = cmp.Or(max(o.Timeout, 0), 10*time.Second)
	if o.Backoff == nil {
		o.Backoff = defaultBackoff
	}
	o.Probe = cmp.Or(max(o.Probe, 0), time.Second)
	o.MaxProbe = cmp.Or(max(o.MaxProbe, 0), time.Minute)
	o.Margin = cmp.Or(max(o.Margin, 0), 10*time.Second)
	o.Poll = cmp.Or(max(o.Poll, 0), 500*time.Millisecond)
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Sender{
		store: store, SenderOptions: o, loops: map[sluice.WebhookID]*running{}, lag: map[sluice.WebhookID]int64{},
	}
}

type noObserver struct{}

func (noObserver) Tried(int, int, int)            {}
func (noObserver) Lag(map[sluice.WebhookID]int64) {}

const sendLease = "webhooks"

// Wake makes every webhook look for new events now.
func (s *Sender) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		l.bell.Ring()
	}
}

// Run sends until the context ends; then it waits for what it is recording.
// In-flight attempts are cancelled, and repeated by the next sender.
func (s *Sender) Run(ctx context.Context) {
	var loops sync.WaitGroup
	defer func() {
		loops.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		_ = s.store.Unlease(ctx, sendLease, s.Node) // it ends by itself as well
	}()
	ttl := s.Timeout + s.Margin
	var renew time.Time
	mine, trouble := false, loop.Trouble{Log: s.Log, Begins: "webhooks cannot be sent for now"}
	for ok := ctx.Err() == nil; ok; ok = loop.Wait(ctx, max(s.Poll, 250*time.Millisecond), nil) {
		var err error
		if now := time.Now(); now.After(renew) {
			var fence int64
			fence, err = s.store.Lease(ctx, sendLease, s.Node, 0, ttl)
			if mine = fence > 0; mine {
				s.until.Store(now.Add(ttl).UnixNano())
			}
			renew = now.Add(min(ttl/4, 2*time.Second)) // the others take over within the lease and this
		}
		var webhooks []sluice.Webhook
		if mine && err == nil {
			webhooks, err = s.store.Webhooks(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil: // the loops go on as long as the lease lets them
			renew = time.Time{}
		default:
			s.follow(ctx, &loops, webhooks)
		}
		trouble.Note(err)
	}
}

// follow starts and ends loops, so that each webhook has one; none if this
// server does not send.
func (s *Sender) follow(ctx context.Context, loops *sync.WaitGroup, webhooks []sluice.Webhook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[sluice.WebhookID]bool{}
	for i := range webhooks {
		id := webhooks[i].ID
		wanted[id] = true
		if s.loops[id] == nil {
			own, stop := context.WithCancel(ctx)
			l := &running{stop: stop, bell: loop.NewBell()}
			s.loops[id] = l
			loops.Go(func() { s.loop(own, id, l.bell) })
		}
	}
	for id, l := range s.loops {
		if !wanted[id] {
			l.stop()
			delete(s.loops, id)
			delete(s.lag, id)
		}
	}
	s.tellLag()
}

// tellLag is called with the lock held.
func (s *Sender) tellLag() {
	s.Observer.Lag(maps.Clone(s.lag))
}

func (s *Sender) setLag(id sluice.WebhookID, lag int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loops[id] != nil {
		s.lag[id] = lag
		s.tellLag()
	}
}

// covered reports whether the lease covers an attempt that begins now.
func (s *Sender) covered() bool {
	return time.Now().Add(s.Timeout).UnixNano() < s.until.Load()
}

// loop sends to one webhook.
func (s *Sender) loop(ctx context.Context, id sluice.WebhookID, bell loop.Bell) {
	trouble := loop.Trouble{Log: s.Log, Begins: "a webhook cannot be served for now"}
	for ctx.Err() == nil {
		more, err := s.once(ctx, id)
		if ctx.Err() == nil {
			trouble.Note(err, "webhook", id)
		}
		if more && err == nil {
			continue
		}
		loop.Wait(ctx, s.Poll, bell)
	}
}

// once makes a round, if it is time for one. It reports whether there is more
// to do at once.
func (s *Sender) once(ctx context.Context, id sluice.WebhookID) (more bool, err error) {
	w, err := s.store.Webhook(ctx, id)
	if errors.Is(err, sluice.ErrWebhookNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !w.DisabledAt.IsZero() || w.Failures >= downAfter && time.Now().Before(w.RetryAt) || !s.covered() {
		return false, nil
	}
	r := &round{s: s, webhook: w}
	return r.run(ctx)
}

// Try posts a body to a webhook once. It is an error if no answer comes in time, or one
// that does not say that the webhook has it. Nothing of it is recorded.
func (s *Sender) Try(ctx context.Context, w *sluice.Webhook, id string, body []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	key, err := w.Key()
	if err != nil {
		return Answer{}, err
	}
	answer, err := s.Post(ctx, &Message{URL: w.URL, ID: id, At: time.Now(), Key: key, Body: body})
	if err == nil && (answer.Status < 200 || answer.Status > 299) {
		err = statusError(answer.Status)
	}
	return answer, err
}

// jitter makes a wait up to a fifth longer or shorter, so that what failed
// together is not tried again together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// Client posts messages to merchants' endpoints by the Standard Webhooks
// specification (https://www.standardwebhooks.com): the headers webhook-id,
// webhook-timestamp and webhook-signature. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	agent string
}

// maxBody is how much of an answer is read, so that the connection can be used
// again; more of it closes the connection.
const maxBody = 16 << 10

// NewClient returns a client that calls itself sluice/version. It follows no redirect
// and keeps no cookies.
//
// Private addresses are allowed, those where a cloud keeps its machines' secrets
// are not (package outbound). A proxy of the environment is not used: it would reach
// them, and the guard would see the proxy's address.
func NewClient(version string) *Client {
	transport := &http.Transport{
		DialContext: outbound.Dialer().DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
	}
	return &Client{agent: "sluice/" + version, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Post makes one attempt.
func (c *Client) Post(ctx context.Context, m *Message) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Answer{}, withoutURL(err)
	}
	h := request.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", c.agent)
	h.Set("Webhook-Id", m.ID)
	h.Set("Webhook-Timestamp", strconv.FormatInt(m.At.Unix(), 10))
	h.Set("Webhook-Signature", sign(m.Key, m.ID, m.At, m.Body))
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, withoutURL(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxBody) // the status has said it all
	return Answer{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"), m.At)}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// withoutURL takes off the method and the URL, which may hold what others are
// not to know.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 && seconds <= 24*3600 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// sign returns the signature of a message: "v1," and the base64 of the
// HMAC-SHA256 of id, timestamp in seconds and body, with dots in between.
func sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
