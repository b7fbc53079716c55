package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/garbage"
	"github.com/sluicehq/sluice/lab/internal/floor"
)

// The servers of the HTTP sides run in a process of their own: this program,
// started again with serveCommand.

const serveCommand = "serve"

// serveConfig says what the process serves. It is its only argument.
type serveConfig struct {
	// Constant, if set, is what a bare handler answers to everything, with Sluice's timeouts, after it has decoded
	// the body of a claim;
	// otherwise an engine answers. With Durable it answers when the request is on the disk.
	Constant *constant `json:"constant,omitempty"`
	Durable  bool      `json:"durable,omitempty"`
	// Verifies: the bare handler also checks the signature of the token with BuyerSecret; Remembers: unless it knows
	// the token.
	Verifies  bool `json:"verifies,omitempty"`
	Remembers bool `json:"remembers,omitempty"`

	DataDir     string `json:"data_dir,omitempty"`
	Ledger      string `json:"ledger,omitempty"` // URLs; empty: embedded
	Store       string `json:"store,omitempty"`
	AdminKey    string `json:"admin_key,omitempty"`
	BuyerSecret string `json:"buyer_secret,omitempty"`
}

// constant is an answer. The bare handlers give the one that the engine gave
// to the same request before: the same status, header and body.
type constant struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"` // without what net/http adds by itself
	Body   string      `json:"body"`
}

func newConstant(answer *http.Response, body []byte) *constant {
	c := &constant{Status: answer.StatusCode, Header: answer.Header.Clone(), Body: string(body)}
	c.Header.Del("Date")
	c.Header.Del("Content-Length")
	return c
}

// ServeHTTP is the bare handler: what net/http can do at most.
func (c *constant) handler() http.Handler {
	body := []byte(c.Body)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for name, values := range c.Header {
			h[name] = values
		}
		w.WriteHeader(c.Status)
		_, _ = w.Write(body)
	})
}

// ready is what the process prints once it listens.
type ready struct {
	URL string `json:"url"`
}

// serve is the other process. It ends when its input does.
func serve(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("serve: this command is for the benchmark itself")
	}
	var c serveConfig
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	server := &http.Server{}
	if c.Constant != nil {
		server.Handler = c.Constant.handler()
		if c.Durable {
			ledger := c.Ledger
			if ledger == alone.ledger {
				ledger = ""
			}
			if server.Handler, err = floor.NewStore(ctx, ledger, c.Store, drainSale(), server.Handler); err != nil {
				return err
			}
		}
		secret := c.BuyerSecret
		if !c.Verifies {
			secret = ""
		}
		server.Handler = floor.Handler(server.Handler, secret, c.Remembers)
		server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 10*time.Second, 30*time.Second, 2*time.Minute
	} else {
		e, err := engine.Open(ctx, engine.Config{
			DataDir: c.DataDir, Ledger: c.Ledger, Store: c.Store, AdminKey: c.AdminKey, BuyerSecret: c.BuyerSecret,
		})
		if err != nil {
			return err
		}
		defer e.Close(ctx)
		server = e.NewServer()
	}
	var r ready
	if r.URL, err = listen(server); err != nil {
		return err
	}
	defer server.Close()
	garbage.Tune() // as sluice serve does
	if err := json.NewEncoder(stdout).Encode(r); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// listen serves on a free port until the server is closed.
func listen(server *http.Server) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = server.Serve(l) }() // ends by Close
	return "http://" + l.Addr().String(), nil
}

// process is a server in a process of its own.
type process struct {
	ready
	cmd   *exec.Cmd
	leash io.Closer      // closing it ends the process
	key   string         // the merchant's
	also  map[string]int // processes of its backend, by name
}

// startServer starts this program as a server.
func startServer(ctx context.Context, c serveConfig) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, serveCommand, string(text))
	cmd.Stderr = os.Stderr
	p := &process{cmd: cmd, key: c.AdminKey}
	if p.leash, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(out).Decode(&p.ready); err != nil {
		p.stop()
		return nil, fmt.Errorf("the server does not start: %w", err)
	}
	return p, nil
}

// pids are the process and those of its backend, as a cpuMeter knows them.
func (p *process) pids() map[string]int {
	all := map[string]int{"server": p.cmd.Process.Pid}
	maps.Copy(all, p.also)
	return all
}

// stop ends the process in good order, or at once if that takes long.
func (p *process) stop() {
	p.leash.Close()
	kill := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait()
}
