// Package embed tests programs with Sluice inside, as modules of their own outside the repository.
package embed

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = time.Minute
	// maxLines is what a program with its own sessions, database and pages needs at most, without empty lines.
	maxLines = 60
	streams  = 100
	buyers   = 400
)

// A shop on each router sells under its prefix to those who are signed in, and hears of every order. Ctrl-C among
// open streams and claims in flight ends it at once, and what it accepted is there when it starts again.
func TestShops(t *testing.T) {
	for name, folder := range map[string]string{
		"net/http": "embed", "chi": "routers/chi", "gin": "routers/gin", "echo": "routers/echo",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t, folder)
			s.start()
			first := s.visitor(0)
			must.Get(first.Place(t.Context(), "phone", client.NewKey(), api.PlaceOrder{Quantity: 1}))(t)
			_, err := s.stranger().Place(t.Context(), "phone", client.NewKey(), api.PlaceOrder{Quantity: 1})
			if client.CodeOf(err) != "unauthenticated" {
				t.Errorf("a buyer who has not signed in: %v", err)
			}
			for sale, err := range s.stranger().FollowSale(t.Context(), "phone") {
				if err != nil || sale.State != sluice.StateOpen {
					t.Errorf("the sale, followed: %+v, %v", sale, err)
				}
				break
			}
			s.page()
			ended := s.listen(streams)
			accepted := s.rush()
			began := time.Now()
			s.interrupt()
			t.Logf("with %d streams and claims in flight it ended after %s", streams, time.Since(began))
			ended.Wait()
			placed := accepted()
			if len(placed) == 0 {
				t.Fatal("nothing was accepted before the end")
			}

			s.start()
			for buyer, order := range placed {
				if got, err := s.visitor(buyer).Order(t.Context(), order); err != nil || got.OrderID != order {
					t.Errorf("an accepted order after the restart: %v, %v", got.OrderID, err)
				}
			}
			s.hears(placed)
			s.interrupt()
		})
	}
}

// shop is a program and where it runs.
type shop struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
	log  bytes.Buffer // read when the program has ended
	gone chan error
}

// build makes a module outside the repository of an example, whose port is free, and
// with other words in its text.
func build(t *testing.T, folder string, words ...string) *shop {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	port, errPort := servertest.FreePort()
	must.Succeed(t, errors.Join(err, errPort))
	s := &shop{t: t, dir: t.TempDir(), port: port}
	examples := filepath.Join(root, "examples")
	for from, change := range map[string]*strings.Replacer{
		filepath.Join(folder, "main.go"): strings.NewReplacer(
			append(words, "127.0.0.1:8080", fmt.Sprintf("127.0.0.1:%d", port))...),
		"routers/go.mod": strings.NewReplacer("module github.com/sluicehq/sluice/examples/routers", "module shop.example",
			"=> ../..", "=> "+root),
		"routers/go.sum": strings.NewReplacer(),
	} {
		text := must.Get(os.ReadFile(filepath.Join(examples, from)))(t)
		if lines := lines(string(text)); strings.HasSuffix(from, ".go") && lines > maxLines {
			t.Errorf("%s has %d lines, want at most %d", from, lines, maxLines)
		}
		to := filepath.Join(s.dir, filepath.Base(from))
		must.Succeed(t, os.WriteFile(to, []byte(change.Replace(string(text))), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", "shop", ".")
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	t.Cleanup(func() {
		if s.cmd != nil {
			_ = s.cmd.Process.Kill()
			<-s.gone
		}
		if t.Failed() {
			t.Logf("the shop's log:\n%s", s.log.String())
		}
	})
	return s
}

// lines counts those that are not empty.
func lines(text string) (n int) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

func (s *shop) url(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path) }

// start starts the shop and waits until its sale can be read.
func (s *shop) start() {
	s.t.Helper()
	s.cmd = exec.Command("./shop")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, &s.log, &s.log
	must.Succeed(s.t, s.cmd.Start())
	gone := make(chan error, 1)
	s.gone = gone
	go func(cmd *exec.Cmd) { gone <- cmd.Wait() }(s.cmd)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for {
		if sale, err := s.stranger().Sale(ctx, "phone"); err == nil && sale.State == sluice.StateOpen {
			return
		}
		select {
		case err := <-gone:
			s.cmd = nil
			s.t.Fatalf("the shop ended at its start: %v", err)
		case <-ctx.Done():
			s.t.Fatal("the shop does not sell")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// interrupt is Ctrl-C. Patience is far below the minutes that a hung stream would hold the shop.
func (s *shop) interrupt() {
	s.t.Helper()
	must.Succeed(s.t, s.cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-s.gone:
		s.cmd = nil
		if err != nil {
			s.t.Errorf("the shop ended with %v", err)
		}
	case <-time.After(patience):
		s.t.Fatal("the shop does not end")
	}
}

// session is the cookie of a buyer's browser, from the shop's own login.
type session struct {
	cookie *http.Cookie
	base   http.RoundTripper
}

func (s session) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.cookie != nil {
		r = r.Clone(r.Context())
		r.AddCookie(s.cookie)
	}
	return s.base.RoundTrip(r)
}

var transport = &http.Transport{MaxIdleConnsPerHost: streams + buyers}

// signIn asks the shop for a session.
func (s *shop) signIn(n int) session {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url(fmt.Sprintf("/login?as=buyer-%d", n)), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := must.Get(transport.RoundTrip(r))(s.t)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
		s.t.Fatalf("login: status %d, cookies %v", answer.StatusCode, answer.Cookies())
	}
	return session{answer.Cookies()[0], transport}
}

func (s *shop) visitor(n int) *client.Client { return s.client(s.signIn(n)) }
func (s *shop) stranger() *client.Client     { return s.client(session{nil, transport}) }

func (s *shop) client(as session) *client.Client {
	s.t.Helper()
	c := must.Get(client.New(s.url("/flash"), client.Options{
		HTTPClient: &http.Client{Transport: as, Timeout: patience}, PlaceAttempts: 1,
	}))(s.t)
	return c
}

// page reads the buyer's page of the sale, whose links have the prefix.
func (s *shop) page() {
	s.t.Helper()
	answer := must.Get((&http.Client{Transport: session{nil, transport}}).Get(s.url("/flash/s/phone")))(s.t)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"/flash/assets/`) {
		s.t.Errorf("the sale's page: status %d, %v\n%s", answer.StatusCode, err, text)
	}
}

// listen opens streams of the sale, and returns what waits for the end of all of them.
func (s *shop) listen(n int) (ended *sync.WaitGroup) {
	s.t.Helper()
	ended = new(sync.WaitGroup)
	for range n {
		r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url("/flash/v1/sales/phone/events"), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		answer := must.Get(transport.RoundTrip(r))(s.t)
		if _, err := answer.Body.Read(make([]byte, 1)); answer.StatusCode != http.StatusOK || err != nil {
			s.t.Fatalf("stream: status %d, %v", answer.StatusCode, err)
		}
		ended.Go(func() {
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
		})
	}
	return ended
}

// rush has buyers claim for as long as there is a shop, returns when some have a unit, and then says who.
func (s *shop) rush() (accepted func() map[int]sluice.OrderID) {
	s.t.Helper()
	var (
		mu   sync.Mutex
		got  = make(map[int]sluice.OrderID)
		all  sync.WaitGroup
		some = make(chan struct{}, buyers)
		work = make(chan int, buyers)
	)
	for n := range buyers {
		work <- n + 1
	}
	close(work)
	for range 8 {
		all.Go(func() {
			for n := range work {
				buyer := s.client(session{&http.Cookie{Name: "visitor", Value: fmt.Sprintf("buyer-%d", n)}, transport})
				placed, err := buyer.Place(s.t.Context(), "phone", client.NewKey(), api.PlaceOrder{Quantity: 1})
				if err != nil {
					continue // the shop has ended
				}
				mu.Lock()
				got[n] = placed.OrderID
				mu.Unlock()
				some <- struct{}{}
			}
		})
	}
	for range 20 {
		select {
		case <-some:
		case <-time.After(patience):
			s.t.Fatal("nobody gets a unit")
		}
	}
	return func() map[int]sluice.OrderID {
		all.Wait()
		return got
	}
}

// hears waits until the shop's own database has each order once.
func (s *shop) hears(orders map[int]sluice.OrderID) {
	s.t.Helper()
	db := must.Get(sql.Open("sqlite", filepath.Join(s.dir, "shop.db")+"?_pragma=busy_timeout(10000)"))(s.t)
	defer db.Close()
	deadline := time.Now().Add(patience)
	for _, order := range orders {
		for {
			var times int
			err := db.QueryRow("SELECT count(*) FROM heard WHERE order_id = ? AND type = ?", order, sluice.EventOrderCreated).
				Scan(&times)
			if err == nil && times == 1 {
				break
			}
			if time.Now().After(deadline) || times > 1 {
				s.t.Fatalf("the shop heard %d times of order %s: %v", times, order, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// A program that lacks a driver says which line it needs, and the guides have the line.
func TestADriverIsMissing(t *testing.T) {
	t.Parallel()
	english, errEnglish := os.ReadFile("../../docs/library.md")
	chinese, errChinese := os.ReadFile("../../docs/library.zh-CN.md")
	must.Succeed(t, errors.Join(errEnglish, errChinese))
	for settings, want := range map[string]string{
		`Ledger: "redis://127.0.0.1:1"`:              `import _ "github.com/sluicehq/sluice/ledger/redisledger"`,
		`Store: "postgres://u:secret@127.0.0.1:1/d"`: `import _ "github.com/sluicehq/sluice/store/pgstore"`,
		`Store: "mysql://u:secret@127.0.0.1:1/d"`:    `import _ "github.com/sluicehq/sluice/store/mysqlstore"`,
	} {
		s := build(t, "embed", `BasePath: "/flash"`, settings)
		cmd := exec.CommandContext(t.Context(), "./shop")
		cmd.Dir = s.dir
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "secret") {
			t.Errorf("%s: %v, %s; want %s", settings, err, out, want)
		}
		line := []byte("\t" + strings.TrimPrefix(want, "import "))
		if !bytes.Contains(english, line) || !bytes.Contains(chinese, line) {
			t.Errorf("a guide lacks %s", line)
		}
	}
}
