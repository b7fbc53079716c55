package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/garbage"
	"github.com/sluicehq/sluice/internal/otlp"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a server", Args: exactly(),
		Long: "Runs a server until SIGINT or SIGTERM. Without settings the server keeps everything in " +
			"./sluice-data and listens on 127.0.0.1:8080. Several servers share a sale when " +
			"they share a ledger (Redis) and a store (PostgreSQL).",
		Example: "  sluice serve\n" +
			"  sluice serve --ledger redis://127.0.0.1:6379 \\\n" +
			"    --store postgres://sluice@127.0.0.1/sluice",
		RunE: a.with(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			secure, err := loadTLS(c, newLogger(a.stderr, c))
			if err != nil {
				return usage(err)
			}
			return a.serve(cmd.Context(), c, secure)
		}),
	}
	serverFlags(cmd)
	return cmd
}

func (a *app) serve(ctx context.Context, c *config.Config, secure *tls.Config) error {
	log := newLogger(a.stderr, c)
	if c.ReadyFile != "" {
		// A file that a killed server left behind must not describe this one.
		if err := os.Remove(c.ReadyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("ready file: %w", err)
		}
	}
	cfg := engineConfig(c, log)
	if c.TraceEndpoint != "" {
		traces, err := otlp.New(c.TraceEndpoint, cfg.Version, log)
		if err != nil {
			return err
		}
		defer traces.Close()
		cfg.Tracer = traces
	}
	s, err := startServer(ctx, cfg, addresses{public: c.Listen, admin: c.AdminListen, secure: secure})
	if err != nil {
		return err
	}
	garbage.Tune()
	warnOfRisks(log, c, secure != nil)
	if err := a.banner(s, c); err != nil {
		return errors.Join(err, s.stop(context.Background()))
	}
	if c.ReadyFile != "" {
		if err := writeReady(c.ReadyFile, s); err != nil {
			return errors.Join(err, s.stop(context.Background()))
		}
		defer os.Remove(c.ReadyFile)
	}
	var broken error
	select {
	case <-ctx.Done():
		log.Info("stopping: answering what is under way and storing what was accepted")
	case broken = <-s.failed:
		broken = fmt.Errorf("the HTTP server stopped: %w", broken)
	}
	closing, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	err = s.stop(closing)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("not everything was finished in time; the journal keeps it for the next start", "shutdown_timeout",
			c.ShutdownTimeout)
		err = nil
	}
	if err == nil && broken == nil {
		log.Info("stopped")
	}
	return errors.Join(broken, err)
}

// warnOfRisks says what a server on the open should not do; of short keys the
// engine warns.
func warnOfRisks(log *slog.Logger, c *config.Config, secure bool) {
	for _, listen := range []string{c.Listen, c.AdminListen} {
		if host, _, _ := net.SplitHostPort(listen); listen != "" && !config.IsLoopback(host) && !secure {
			log.Warn("listening beyond this machine without TLS: put a proxy with TLS in front, or give --tls-cert "+
				"and --tls-key", "listen", listen)
		}
	}
}

// banner says where everything is.
func (a *app) banner(s *server, c *config.Config) error {
	cfg := engineConfig(c, nil)
	ledger, store := backends(cfg)
	if a.json {
		return a.printJSON(map[string]string{
			"url": s.url, "admin_url": s.admin, "node": s.engine.Node(), "ledger": ledger,
			"store": store,
		})
	}
	key := "as configured (" + c.Origin("admin_key") + ")"
	if c.AdminKey == "" {
		key = "in " + filepath.Join(c.DataDir, adminKeyFile)
	}
	fmt.Fprintf(a.stdout, "Sluice %s, node %s\n", buildVersion().Version, s.engine.Node())
	lines := [][]string{
		{"  url", a.link(s.url)},
		{"  pages", a.link(s.url + "/")},
		{"  sales", a.link(s.url + "/v1/sales")},
		{"  ready", a.link(s.url + "/readyz")},
	}
	if s.admin != s.url {
		lines = append(lines, []string{"  admin url", a.link(s.admin)})
	}
	a.printColumns(append(lines,
		[]string{"  metrics", a.link(s.admin + "/metrics")},
		[]string{"  ledger", ledger},
		[]string{"  store", store},
		[]string{"  admin key", key},
	), nil)
	fmt.Fprintln(a.stdout, "Ctrl-C stops it.")
	return nil
}

// link makes a URL clickable on a terminal.
func (a *app) link(url string) string {
	if a.columns == 0 {
		return url
	}
	return lipgloss.NewStyle().Underline(true).Hyperlink(url).Render(url)
}

// newLogger writes the log, on stderr; the engine may change its level.
func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	c.Verbosity = cmp.Or(c.Verbosity, new(slog.LevelVar))
	_ = c.Verbosity.UnmarshalText([]byte(c.LogLevel)) // the settings are valid
	o := &slog.HandlerOptions{Level: c.Verbosity}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

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
	if err := cfg.Check(); err != nil { // before the data folder is made
		return nil, usage(err)
	}
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
	if op, ok := errors.AsType[*net.OpError](err); ok {
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
	cfg.Log, cfg.Version = log, buildVersion().Version
	if host, port, err := net.SplitHostPort(cmp.Or(c.AdminListen, c.Listen)); err == nil && port != "0" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host, _ = os.Hostname()
		}
		if !config.IsLoopback(host) { // which says nothing to other machines
			cfg.AdminAddress = net.JoinHostPort(host, port)
		}
	}
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
	return auth.Redact(ledger), auth.Redact(store)
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
