package main

import (
	"cmp"
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
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/config"
)

// server is an engine behind a listener.
type server struct {
	engine *engine.Engine
	http   *http.Server
	url    string     // http://host:port
	failed chan error // gets one value when serving ends by itself
}

// startServer opens the engine and listens.
func startServer(ctx context.Context, cfg engine.Config, listen string, secure *tls.Config) (*server, error) {
	e, err := engine.Open(ctx, cfg)
	if errors.Is(err, sluice.ErrInUse) {
		return nil, fmt.Errorf("the data folder %s is in use by another process; give this one its own --data-dir", cfg.DataDir)
	}
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), engine.ShutdownTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("cannot listen on %s: %w", listen, networkCause(err)), e.Close(closing))
	}
	s := &server{engine: e, url: reachable(l.Addr(), secure != nil), failed: make(chan error, 1)}
	s.http = e.NewServer()
	s.http.TLSConfig = secure
	go func() {
		if secure != nil {
			s.failed <- s.http.ServeTLS(l, "", "")
		} else {
			s.failed <- s.http.Serve(l)
		}
	}()
	return s, nil
}

// stop answers what is under way, stores what was accepted, and frees
// everything; until ctx ends, then the rest waits in the journal.
func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
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

func engineConfig(c *config.Config, log *slog.Logger) engine.Config {
	return engine.Config{
		EventStreams:     cmp.Or(c.EventStreams, -1),     // 0: none
		EventsPerAddress: cmp.Or(c.EventsPerAddress, -1), // 0: no limit
		CORSOrigins:      c.CORSOrigins,
		DataDir:          c.DataDir, Ledger: c.Ledger, LedgerReplica: c.LedgerReplica, Store: c.Store, Node: c.Node,
		AdminKey: c.AdminKey, BuyerSecret: c.BuyerSecret, AdminKeys: c.AdminKeys,
		BuyerJWKS: c.BuyerJWKS, BuyerIssuer: c.BuyerIssuer, BuyerAudience: c.BuyerAudience, ClockSkew: cmp.Or(c.ClockSkew, -1), // 0: none
		Pages:        engine.Pages{LoginURL: c.LoginURL, PayURL: c.PayURL},
		TicketSecret: c.TicketSecret, TicketSecretPrevious: c.TicketSecretPrevious,
		Refresh: c.RefreshInterval, Queue: c.ClaimQueue, WaitReplicas: c.WaitReplicas,
		ClaimsInFlight: c.ClaimsInFlight, TrustedProxies: c.TrustedProxies, ClientAddressHeader: c.ClientAddressHeader,
		Retention: c.Retention, Reconcile: orNever(c.ReconcileInterval), Expiry: c.ExpiryInterval, Abandoned: c.AbandonedAfter, Log: log,
	}
}

// orNever is an interval as the engine wants it: 0 there means the default.
func orNever(interval time.Duration) time.Duration {
	if interval == 0 {
		return -1
	}
	return interval
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

// writeReady writes the file that says where the server is, whole or not at all.
func writeReady(path, url string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(url+"\n"), 0o644); err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	return nil
}
