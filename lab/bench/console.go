package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"time"
)

// What people who watch cost those who buy: the same rush beside a server's consoles and without them. The third side
// shows how far two measurements of the same are apart.

const (
	consoles = 50

	unwatchedName = "sold out over HTTP, no console is open"
	watchedName   = "sold out over HTTP, 50 consoles show the sale"
	repeatedName  = "sold out over HTTP, no console is open, measured again"
)

func openConsoleGroup(ctx context.Context, o *options) ([]side, func(), error) {
	g, _, _, done, err := newHTTPGroup(ctx, o, min(o.pool, (turnsOfRound+1)*crowdAgain))
	if err != nil {
		return nil, nil, err
	}
	buyers := fmt.Sprintf("a sale sold out, %d buyers press the button over and over; wrk, %d connections", crowdAgain,
		wrkConnections)
	return []side{
		{name: unwatchedName, own: true, begin: g.soldOut(crowdAgain, nil), does: buyers},
		{
			name: watchedName, own: true, begin: g.soldOut(crowdAgain, watch),
			does: fmt.Sprintf("the same, while %d browsers have the sale's page of the console open", consoles),
		},
		{name: repeatedName, own: true, begin: g.soldOut(crowdAgain, nil), does: "the same as the first"},
	}, done, nil
}

// watch opens the sale's page in consoles, and returns what closes them, once each has had a message.
func watch(ctx context.Context, p *process) (end func() error, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar}
	signIn, err := browser.PostForm(p.URL+"/admin/sign-in", url.Values{"key": {p.key}})
	if err != nil {
		return nil, err
	}
	signIn.Body.Close()
	if signIn.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("sign in to the console: %s", signIn.Status)
	}
	ctx, leave := context.WithCancel(ctx)
	ended, told := make(chan error, consoles), make(chan struct{}, consoles)
	var all sync.WaitGroup
	for range consoles {
		all.Go(func() {
			c := console{browser, p.URL + "/admin/sales/" + shopSale}
			err := c.watch(ctx, sync.OnceFunc(func() { told <- struct{}{} }))
			ended <- cmp.Or(err, io.ErrUnexpectedEOF) // the server ends no stream of a benchmark
		})
	}
	end = func() error {
		leave()
		all.Wait()
		browser.CloseIdleConnections()
		for range consoles {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a console: %w", err)
			}
		}
		return nil
	}
	for range consoles {
		select {
		case <-told:
		case err := <-ended:
			leave()
			return nil, fmt.Errorf("a console: %w", err)
		}
	}
	return end, nil
}

// console is a page of the console in a browser, at its address.
type console struct {
	browser *http.Client
	page    string
}

// watch does what the page's script does: it reads the stream, and the page again when what the server makes of it
// is another, and every ten seconds.
func (c console) watch(ctx context.Context, told func()) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	stream, err := c.get(ctx, c.page+"/live")
	if err != nil {
		return err
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	const every = 10 * time.Second
	next := time.Now().Add(rand.N(every)) // it has been open for a while
	for last := ""; lines.Scan(); {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var message struct {
			Signature string `json:"signature"`
		}
		err := json.Unmarshal([]byte(text), &message)
		if now := time.Now(); err == nil && (last != "" && message.Signature != last || now.After(next)) {
			err, next = c.load(ctx), now.Add(every)
		}
		if err != nil {
			return err
		}
		last = message.Signature
		told()
	}
	return lines.Err()
}

// load reads the page.
func (c console) load(ctx context.Context) error {
	page, err := c.get(ctx, c.page)
	if err != nil {
		return err
	}
	defer page.Close()
	_, err = io.Copy(io.Discard, page)
	return err
}

func (c console) get(ctx context.Context, address string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.browser.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("%s: %s", address, answer.Status)
	}
	return answer.Body, nil
}
