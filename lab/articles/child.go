package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/lab/internal/method"
)

// Who answers buyers and who stores orders are processes of their own, so that each
// can be killed: this program, started again with childCommand.

const childCommand = "child"

// child says what such a process does.
type child struct {
	Method string         `json:"method"`
	On     method.Servers `json:"on"`
	Listen string         `json:"listen,omitempty"` // empty: it is the worker
}

// runChild runs until its input ends. The parent reads "ready", or what is wrong.
func runChild(ctx context.Context, text string, stdin io.Reader, stdout io.Writer) (err error) {
	defer func() {
		if err != nil {
			fmt.Fprintln(stdout, err)
		}
	}()
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	m, err := method.Find(c.Method)
	if err != nil {
		return err
	}
	s, err := m.Open(ctx, c.On)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.Listen == "" {
		go s.Work(ctx)
	} else {
		l, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: counter(s)}
		defer server.Close()
		go func() { _ = server.Serve(l) }() // ends by Close
	}
	fmt.Fprintln(stdout, "ready")
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// counter is where buyers are served.
func counter(s method.Seller) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, value any, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(value)
	}
	mux.HandleFunc("POST /warm", func(w http.ResponseWriter, r *http.Request) {
		units, _ := strconv.ParseInt(r.FormValue("units"), 10, 64)
		answer(w, "warm", s.WarmUp(r.Context(), units))
	})
	mux.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		buyer := r.FormValue("buyer")
		// A buyer who has hung up does not stop what this request has begun.
		ctx := context.WithoutCancel(r.Context())
		err := s.Expect(buyer)
		var said method.Answer
		if err == nil {
			said, err = s.Buy(ctx, buyer, r.FormValue("key"))
		}
		answer(w, said, err)
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		orders, err := s.Orders(r.Context())
		answer(w, orders, err)
	})
	return mux
}

// process is a child as its parent has it.
type process struct {
	child
	cmd   *exec.Cmd // nil while it does not run
	leash io.Closer
}

// start starts the child, again if it ends at once, as while a server is away.
func (p *process) start(ctx context.Context) error {
	for end := time.Now().Add(30 * time.Second); ; {
		err := p.tryStart()
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *process) tryStart() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(p.child)
	if err != nil {
		return err
	}
	cmd := exec.Command(self, childCommand, string(text))
	cmd.Stderr = nil
	leash, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.leash = cmd, leash
	if said, _ := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		p.kill()
		return fmt.Errorf("%s does not start: %s", p.Method, strings.TrimSpace(said))
	}
	return nil
}

// kill ends it as a crash would.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.leash.Close()
	p.cmd = nil
}

// ask sends a request to the counter, and reads its answer into value.
func (p *process) ask(ctx context.Context, method, path string, query url.Values, value any) error {
	u := url.URL{Scheme: "http", Host: p.Listen, Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(w.Body)
		return errors.New(string(text))
	}
	return json.NewDecoder(w.Body).Decode(value)
}
