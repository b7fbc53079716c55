package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/garbage"
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

// reading is the floor of a server that answers a claim: it does what any of them must.
func (c *serveConfig) reading(answer http.Handler) http.Handler {
	var known sync.Map // tokens that were verified
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			answer.ServeHTTP(w, r)
			return
		}
		var order struct{ Quantity int }
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err == nil {
			err = json.Unmarshal(body, &order)
		}
		token := r.Header.Get("Authorization")
		dot := strings.LastIndexByte(token, '.')
		if err != nil || order.Quantity != 1 || dot < len("Bearer ") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if _, verified := known.Load(token); c.Verifies && !verified {
			mac := hmac.New(sha256.New, []byte(c.BuyerSecret))
			_, _ = io.WriteString(mac, token[len("Bearer "):dot])
			if given, err := base64.RawURLEncoding.DecodeString(token[dot+1:]); err != nil || !hmac.Equal(given, mac.Sum(nil)) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if c.Remembers {
				known.Store(strings.Clone(token), nil)
			}
		}
		answer.ServeHTTP(w, r)
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
			if server.Handler, err = newBareStore(ctx, &c, server.Handler); err != nil {
				return err
			}
		}
		server.Handler = c.reading(server.Handler)
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
	garbage.Pace() // as sluice serve does
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
