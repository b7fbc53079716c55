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
	"net/http/pprof"
	"os"
	"os/exec"
	"strconv"
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
	// Constant, if set, is what a bare handler answers to everything;
	// otherwise an engine answers. With Durable it answers when the request is on the disk.
	Constant *constant `json:"constant,omitempty"`
	Durable  bool      `json:"durable,omitempty"`
	// Reads: the bare handler has Sluice's timeouts and decodes the body of a claim before it answers;
	// Verifies: it also checks the signature of the token with BuyerSecret; Remembers: unless it knows the token.
	Reads     bool `json:"reads,omitempty"`
	Verifies  bool `json:"verifies,omitempty"`
	Remembers bool `json:"remembers,omitempty"`

	DataDir     string `json:"data_dir,omitempty"`
	Ledger      string `json:"ledger,omitempty"` // URLs; empty: embedded
	Store       string `json:"store,omitempty"`
	AdminKey    string `json:"admin_key,omitempty"`
	BuyerSecret string `json:"buyer_secret,omitempty"`
	Streams     int    `json:"streams,omitempty"` // event streams at a time; 0: the default
	Profile     bool   `json:"profile,omitempty"` // also serve net/http/pprof, on another port
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
	known := newKnownTokens()
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
		if c.Verifies && !(c.Remembers && known.has(token)) {
			mac := hmac.New(sha256.New, []byte(c.BuyerSecret))
			_, _ = io.WriteString(mac, token[len("Bearer "):dot])
			if given, err := base64.RawURLEncoding.DecodeString(token[dot+1:]); err != nil || !hmac.Equal(given, mac.Sum(nil)) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if c.Remembers {
				known.add(token)
			}
		}
		answer.ServeHTTP(w, r)
	})
}

// knownTokens are tokens that were verified.
type knownTokens struct {
	mu  sync.RWMutex
	all map[string]struct{}
}

func newKnownTokens() *knownTokens { return &knownTokens{all: map[string]struct{}{}} }

func (k *knownTokens) has(token string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, known := k.all[token]
	return known
}

func (k *knownTokens) add(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[strings.Clone(token)] = struct{}{}
}

// ready is what the process prints once it listens.
type ready struct {
	URL     string `json:"url"`
	Profile string `json:"profile,omitempty"`
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
		if c.Reads {
			server.Handler = c.reading(server.Handler)
			server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 10*time.Second, 30*time.Second, 2*time.Minute
		}
	} else {
		e, err := engine.Open(ctx, engine.Config{
			DataDir: c.DataDir, Ledger: c.Ledger, Store: c.Store, AdminKey: c.AdminKey, BuyerSecret: c.BuyerSecret,
			EventStreams: c.Streams, EventsPerAddress: -1,
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
	if c.Constant == nil || c.Reads { // as sluice serve does; a bare handler is as Go runs it
		garbage.Pace()
	}
	if c.Profile {
		if r.Profile, err = listen(&http.Server{Handler: profiles()}); err != nil {
			return err
		}
	}
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

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.Handle("/debug/pprof/allocs", pprof.Handler("allocs"))
	mux.Handle("/debug/pprof/mutex", pprof.Handler("mutex"))
	return mux
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

// startProfileOf takes profiles of a server, which works already, if the round is for that.
func (r *round) startProfileOf(ctx context.Context, p *process) <-chan error {
	done := make(chan error, 1)
	if r.profileTo == "" || p.Profile == "" {
		done <- nil
	} else {
		go func() { done <- p.saveProfiles(ctx, r.profileTo, max(int(r.long.Seconds())-1, 1)) }()
	}
	return done
}

// saveProfiles writes the server's CPU profile of the next seconds, and what
// it has allocated since its start, into files.
func (p *process) saveProfiles(ctx context.Context, to string, seconds int) error {
	for _, f := range []struct{ path, file string }{
		{"/debug/pprof/profile?seconds=" + strconv.Itoa(seconds), to + ".cpu.pprof"},
		{"/debug/pprof/allocs", to + ".allocs.pprof"},
	} {
		status, body, err := request(ctx, http.MethodGet, p.Profile+f.path, "", "", "")
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("%s: status %d", f.path, status)
		}
		if err := os.WriteFile(f.file, []byte(body), 0o644); err != nil {
			return err
		}
	}
	return nil
}
