package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/config"
)

// server is an engine behind its listeners.
type server struct {
	engine *engine.Engine
	http   []*http.Server
	url    string     // http://host:port
	admin  string     // of the merchant's API; the same as url with one listener
	failed chan error // gets one value for each listener that ends by itself
}

// addresses are where a server listens: without admin, one listener serves all.
// TLS, if there is any, is for what other machines can reach.
type addresses struct {
	public, admin string
	secure        *tls.Config // nil: none
}

// startServer opens the engine and listens.
func startServer(ctx context.Context, cfg engine.Config, at addresses) (*server, error) {
	e, err := engine.Open(ctx, cfg)
	if errors.Is(err, sluice.ErrInUse) {
		return nil, fmt.Errorf("the data folder %s is in use by another process; give this one its own --data-dir",
			cfg.DataDir)
	}
	if err != nil {
		return nil, err
	}
	s := &server{engine: e, failed: make(chan error, 2)}
	if at.admin == "" {
		s.url, err = s.listen(e.NewServer(), "--listen", at.public, at.secure)
		s.admin = s.url
	} else if s.url, err = s.listen(e.NewPublicServer(), "--listen", at.public, at.secure); err == nil {
		secure := at.secure
		if host, _, _ := net.SplitHostPort(at.admin); config.IsLoopback(host) {
			secure = nil // the certificate is for the public's name of this server
		}
		s.admin, err = s.listen(e.NewAdminServer(), "--admin-listen", at.admin, secure)
	}
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), engine.ShutdownTimeout)
		defer cancel()
		return nil, errors.Join(err, s.stop(closing))
	}
	return s, nil
}

// listen serves on an address that a flag gave, and returns its URL.
func (s *server) listen(server *http.Server, flag, address string, secure *tls.Config) (url string, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("cannot listen on %s: %w; %s takes another address", address, networkCause(err), flag)
	}
	server.TLSConfig = secure
	s.http = append(s.http, server)
	go func() {
		if secure != nil {
			s.failed <- server.ServeTLS(l, "", "")
		} else {
			s.failed <- server.Serve(l)
		}
	}()
	return reachable(l.Addr(), secure != nil), nil
}

// stop answers what is under way, stores what was accepted, and frees
// everything; until ctx ends, then the rest waits in the journal.
func (s *server) stop(ctx context.Context) (err error) {
	for _, server := range s.http {
		stopped := server.Shutdown(ctx)
		if stopped != nil {
			stopped = errors.Join(stopped, server.Close())
		}
		err = errors.Join(err, stopped)
	}
	return errors.Join(err, s.engine.Close(ctx))
}

// networkCause takes off what repeats the address.
func networkCause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// reachable is the URL under which this machine reaches a listener.
func reachable(addr net.Addr, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return scheme + "://" + addr.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// engineConfig is the configuration of the server's engine.
func engineConfig(c *config.Config, log *slog.Logger) engine.Config {
	cfg := c.Config
	cfg.Log = log
	return cfg
}

// backends are ledger and store as they may be shown.
func backends(cfg engine.Config) (ledger, store string) {
	ledger, store = cfg.Ledger, cfg.Store
	if ledger == "" {
		ledger = "sqlite:" + filepath.Join(cfg.DataDir, "ledger.db")
	}
	if store == "" {
		store = "sqlite:" + filepath.Join(cfg.DataDir, "store.db")
	}
	return config.Redact(ledger), config.Redact(store)
}

// writeReady writes the file that says where the server is, whole or not at all:
// its URL, and in a second line that of the merchant's API, if it is another.
func writeReady(path string, s *server) error {
	text := s.url + "\n"
	if s.admin != s.url {
		text += s.admin + "\n"
	}
	next := path + ".new"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	return nil
}
