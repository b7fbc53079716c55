package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/internal/config"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a server", Args: exactly(),
		Long: "Runs a server until SIGINT or SIGTERM. Without settings it keeps everything in\n" +
			"./sluice-data and listens on 127.0.0.1:8080. Several servers share a sale when\n" +
			"they share a ledger (Redis) and a store (PostgreSQL).",
		Example: "  sluice serve\n" +
			"  sluice serve --ledger redis://127.0.0.1:6379 --store postgres://sluice@127.0.0.1/sluice",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			secure, err := loadTLS(c, newLogger(a.stderr, c))
			if err != nil {
				return usage(err)
			}
			return a.serve(cmd.Context(), c, secure)
		},
	}
	config.AddFlags(cmd.Flags(), serverSettings...)
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
	s, err := startServer(ctx, engineConfig(c, log), addresses{public: c.Listen, admin: c.AdminListen, secure: secure})
	if err != nil {
		return err
	}
	warnOfRisks(log, c, secure != nil)
	if c.ReadyFile != "" {
		if err := writeReady(c.ReadyFile, s); err != nil {
			return errors.Join(err, s.stop(context.Background()))
		}
		defer os.Remove(c.ReadyFile)
	}
	if err := a.banner(s, c); err != nil {
		return errors.Join(err, s.stop(context.Background()))
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
	if terminal(a.stdout) == nil {
		return url
	}
	return lipgloss.NewStyle().Underline(true).Hyperlink(url).Render(url)
}

// newLogger writes the log, on stderr.
func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the settings are valid
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
