package auth

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoKeys: the keys that would tell whose token this is cannot be had now.
// It says nothing about the token.
var ErrNoKeys = errors.New("identity: the keys of tokens cannot be read now")

// KeysOptions say where public keys come from. Location is needed.
type KeysOptions struct {
	// Location is the path of a JWKS file, or the https URL of a JWKS document.
	// Plain http is for this machine only (localhost and loopback addresses):
	// an attacker who can change the response in transit could sign tokens.
	Location string
	// Refresh is how often the keys are read again; default 5 minutes. After a
	// failure they are asked for sooner, at growing intervals from a second on.
	Refresh time.Duration
	// Cooldown is how long after reading the keys a token that they do not fit
	// does not make them be read again; default 5 seconds.
	Cooldown time.Duration
	// Timeout bounds one reading; default 5 seconds.
	Timeout time.Duration

	Client *http.Client     // default: one that follows no redirects
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default: silent
}

// Keys are the public keys of the issuer of buyers' tokens: a JWKS that is read
// at the start, again and again in the background, and when a token comes that
// was signed with none of them. When reading fails, the last good set goes on being used,
// for as long as it takes. It is safe for concurrent use.
type Keys struct {
	o     KeysOptions
	fetch func(context.Context) ([]byte, error)
	// patience is how long a request waits for a reading.
	patience time.Duration
	set      atomic.Pointer[keySet] // nil before the first success

	mu      sync.Mutex
	reading *reading  // the one under way, or nil
	last    *reading  // the last one that has ended, or nil
	good    time.Time // when the last one that succeeded ended
	waiting int       // requests that wait for the one under way

	life context.Context // of readings, which outlive the requests that ask for them
	stop context.CancelFunc
	work sync.WaitGroup
}

// reading is one attempt; done is closed when its outcome is known.
type reading struct {
	began time.Time
	done  chan struct{}
	ended time.Time // once done, as err
	err   error
}

// Bounds of requests that wait for keys.
const (
	maxWaiting = 256
	patience   = 2 * time.Second
)

// CheckKeysLocation says what is wrong with a Location, without reading it.
func CheckKeysLocation(location string) error {
	if location == "" {
		return errors.New("want the path of a JWKS file or an https URL")
	}
	if !strings.Contains(location, "://") {
		return nil
	}
	u, err := url.Parse(location)
	switch {
	case err != nil || u.Hostname() == "":
		return errors.New("want the path of a JWKS file or an URL like https://login.example.com/jwks.json")
	case u.User != nil || u.Fragment != "":
		return errors.New("want no user and no fragment in the URL")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return errors.New(
			"want https: over plain http anybody on the way could put in keys of their own (http is for this machine only)")
	}
	return fmt.Errorf("scheme %q: want https, or the path of a file", shorten(u.Scheme))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NewKeys returns keys that are not read yet: Refresh or Run reads them.
func NewKeys(o KeysOptions) (*Keys, error) {
	if err := CheckKeysLocation(o.Location); err != nil {
		return nil, fmt.Errorf("identity: keys from %s: %w", o.where(), err)
	}
	o.Refresh = cmp.Or(max(o.Refresh, 0), 5*time.Minute)
	o.Cooldown = cmp.Or(max(o.Cooldown, 0), 5*time.Second)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 5*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: o.Timeout, ResponseHeaderTimeout: o.Timeout,
			MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}}
	}
	k := &Keys{o: o, patience: patience}
	k.life, k.stop = context.WithCancel(context.Background())
	k.fetch = k.fetchFile
	if strings.Contains(o.Location, "://") {
		client := *o.Client
		// A redirect would lead to a host that is not configured as a source of keys.
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		k.fetch = func(ctx context.Context) ([]byte, error) { return fetchURL(ctx, &client, o.Location) }
	}
	return k, nil
}

// where is the location as it may be shown: a query may hold a secret.
func (o *KeysOptions) where() string {
	if i := strings.IndexByte(o.Location, '?'); i >= 0 && strings.Contains(o.Location, "://") {
		return o.Location[:i] + "?…"
	}
	return o.Location
}

// Run reads the keys now and again until the context ends. It may be called
// once.
func (k *Keys) Run(ctx context.Context) {
	wait := time.Duration(0)
	if k.set.Load() != nil {
		wait = k.o.Refresh
	}
	retry := time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := k.Refresh(ctx); err == nil {
			wait, retry = k.o.Refresh, time.Second
		} else {
			wait, retry = min(retry, k.o.Refresh), retry*2
		}
	}
}

// Close ends what is under way. It is idempotent.
func (k *Keys) Close() {
	k.mu.Lock() // no reading begins after this
	k.stop()
	k.mu.Unlock()
	k.work.Wait()
}

// Refresh reads the keys now, or waits for the reading that is under way. On
// an error the keys from before go on being used.
func (k *Keys) Refresh(ctx context.Context) error {
	k.mu.Lock()
	r := k.begin()
	k.mu.Unlock()
	return r.wait(ctx)
}

// Status returns how many keys there are, and when they were last read without
// an error; zero: never.
func (k *Keys) Status() (keys int, read time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set.Load().size(), k.good
}

// Trouble returns the error of the last reading, and which keys of the set are not used though they are not to encrypt:
// their kids, and why.
func (k *Keys) Trouble() (passedOver []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil {
		err = k.last.err
	}
	if set := k.set.Load(); set != nil {
		passedOver = set.passedOver
	}
	return passedOver, err
}

func (r *reading) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin returns the reading under way, or starts one. The caller holds mu.
func (k *Keys) begin() *reading {
	if k.reading != nil {
		return k.reading
	}
	r := &reading{began: k.o.Now(), done: make(chan struct{})}
	if err := k.life.Err(); err != nil {
		r.err = err
		close(r.done)
		return r
	}
	k.reading = r
	k.work.Go(func() {
		r.err = k.read()
		r.ended = k.o.Now()
		k.mu.Lock()
		k.reading, k.last = nil, r
		if r.err == nil {
			k.good = r.ended
		}
		k.mu.Unlock()
		close(r.done)
	})
	return r
}

// read is one reading.
func (k *Keys) read() error {
	ctx, cancel := context.WithTimeout(k.life, k.o.Timeout)
	defer cancel()
	document, err := k.fetch(ctx)
	var next *keySet
	var skipped []string
	if err == nil {
		next, skipped, err = parseKeySet(document)
	}
	old := k.set.Load()
	if err != nil {
		err = fmt.Errorf("identity: keys from %s: %w", k.o.where(), err)
		if k.life.Err() == nil {
			instead := "their tokens are not accepted until they are"
			if old != nil {
				instead = "those read before stay in use"
			}
			k.o.Log.Warn("the keys of buyers' tokens cannot be read; "+instead, "have", old.size(), "error", err)
		}
		return err
	}
	if changed := old.succeed(next); changed {
		k.o.Log.Info("the keys of buyers' tokens were read", "from", k.o.where(), "keys", next.size(), "passed_over", skipped)
	}
	if over := next.passedOver; len(over) > 0 && (old == nil || !slices.Equal(over, old.passedOver)) {
		k.o.Log.Warn("keys of buyers' tokens cannot be used; what they sign is refused", "from", k.o.where(), "keys", over)
	}
	k.set.Store(next)
	return nil
}

func (s *keySet) size() int {
	if s == nil {
		return 0
	}
	return len(s.keys)
}

func (k *Keys) fetchFile(context.Context) ([]byte, error) {
	f, err := os.Open(k.o.Location)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

func fetchURL(ctx context.Context, client *http.Client, location string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := client.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // its text repeats the URL, with the query
			err = u.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %q; redirects are not followed", response.Status)
	}
	return readAll(response.Body)
}

// CheckKeysFile says what is wrong with a JWKS file.
func CheckKeysFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		return fmt.Errorf("it cannot be read: %w", err)
	}
	defer f.Close()
	document, err := readAll(f)
	if err == nil {
		_, _, err = parseKeySet(document)
	}
	return err
}

func readAll(r io.Reader) ([]byte, error) {
	document, err := io.ReadAll(io.LimitReader(r, maxKeySetBytes+1))
	if err == nil && len(document) > maxKeySetBytes {
		err = fmt.Errorf("it is larger than %d bytes", maxKeySetBytes)
	}
	return bytes.TrimPrefix(document, []byte("\ufeff")), err // some editors begin a file so
}

// find returns the key at hand that a token names, or nil.
func (k *Keys) find(id, alg string) *publicKey {
	if set := k.set.Load(); set != nil {
		return set.find(id, alg)
	}
	return nil
}

// renew reads the keys again for a token that those at hand do not fit: it
// names none of them, or none of them made its signature. An issuer that rotates
// keys may reuse a name, or use no names at all. Nothing is read if that has
// just been done.
//
// After nil the keys at hand are newer than the token, as far as anybody can
// tell: if it does not fit those either, it is no good. ErrNoKeys: it may be.
// Signed is when the token says that it was signed, or zero.
func (k *Keys) renew(ctx context.Context, id string, signed time.Time) error {
	r, err := k.ask(id, signed)
	if r == nil {
		return err
	}
	defer k.leave()
	ctx, cancel := context.WithTimeout(ctx, k.patience)
	defer cancel()
	if err := r.wait(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNoKeys, err)
	}
	if signed.After(r.began) { // it joined a reading that was under way
		return ErrNoKeys
	}
	return nil
}

// ask joins the reading under way or, if the last one is some time ago, starts
// one. Else it returns renew's error.
func (k *Keys) ask(id string, signed time.Time) (*reading, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.last; k.reading == nil && last != nil {
		if since := k.o.Now().Sub(last.ended); since >= 0 && since < k.o.Cooldown {
			if last.err == nil && k.set.Load().knows(id) && !signed.After(last.began) {
				return nil, nil
			}
			return nil, ErrNoKeys // the key may have been added just now
		}
	}
	if k.waiting >= maxWaiting {
		return nil, ErrNoKeys
	}
	k.waiting++
	return k.begin(), nil
}

func (k *Keys) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting--
}
