package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/config"
)

// serverSettings have a flag at serve, auditSettings at audit.
var (
	serverSettings = []string{
		"data_dir", "ledger", "store", "listen", "admin_listen", "ready_file", "node", "tls_cert", "tls_key", "admin_key",
		"buyer_jwks", "buyer_issuer", "buyer_audience", "buyer_token_life", "clock_skew",
		"log_level", "log_format", "shutdown_timeout", "refresh_interval", "login_url", "pay_url", "cors_origins",
		"event_streams", "events_per_address", "ledger_replica", "claim_queue", "claims_in_flight", "trusted_proxies",
		"client_address_header", "retention", "record_retention", "reconcile_interval", "expiry_interval",
		"abandoned_after", "wait_replicas",
	}
	auditSettings = []string{"data_dir", "ledger", "store"}
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Write, check and show settings",
		Long: "Settings come from, the later wins: defaults, the file of --config (YAML), the\n" +
			"environment (SLUICE_...), flags.",
	}
	group(cmd)
	cmd.AddCommand(a.configInit(), a.configCheck(), a.configPrint())
	return cmd
}

func (a *app) configInit() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Write a file with every setting, commented out (default: sluice.yaml)", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkEnvironment(); err != nil {
				return err
			}
			path := a.file()
			if path == "" {
				path = usualFile
			}
			if err := config.WriteTemplate(path); err != nil {
				return usage(err)
			}
			if a.json {
				return a.printJSON(map[string]string{"path": path})
			}
			fmt.Fprintf(a.stdout, "wrote %s\n", path)
			a.say("It is read where it is named: sluice serve --config %s", path)
			return nil
		},
	}
}

func (a *app) configCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Say what is wrong with the settings of serve", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if err := c.CheckFiles(); err != nil {
				return usage(err)
			}
			warnings, err := shortKeys(c)
			if err != nil {
				return err
			}
			if len(warnings) > 0 && c.Exposed { // serve would not start
				return usage(errors.New(strings.Join(warnings, "\n")))
			}
			if a.json {
				return a.printJSON(struct {
					OK       bool     `json:"ok"`
					File     string   `json:"file"` // empty: none was read
					Warnings []string `json:"warnings,omitempty"`
				}{true, a.file(), warnings})
			}
			for _, w := range warnings {
				a.say("warning: %s", w)
			}
			fmt.Fprintf(a.stdout, "the settings are right (%s)\n", a.fileRead())
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), append(serverSettings, "url")...)
	return cmd
}

// usualFile is where config init writes to. It is read like any other file:
// when it is named.
const usualFile = "sluice.yaml"

// fileRead says which file the settings came from, and which one did not count.
func (a *app) fileRead() string {
	if file := a.file(); file != "" {
		return "file: " + file
	}
	if info, err := os.Stat(usualFile); err == nil && info.Mode().IsRegular() {
		return "file: none; ./" + usualFile + " is not used without --config"
	}
	return "file: none"
}

// shortKeys are the warnings of keys that can be guessed, given or kept in the
// data folder. They never hold the keys. The engine warns of the same at the start.
func shortKeys(c *config.Config) (warnings []string, err error) {
	kept := func(key, given, file string) (secret, origin string, err error) {
		if given != "" {
			return given, c.Origin(key), nil
		}
		path := filepath.Join(c.DataDir, file)
		secret, err = readSecret(path)
		return secret, path, err
	}
	admin, origin, err := kept("admin_key", c.AdminKey, adminKeyFile)
	if err != nil {
		return nil, err
	}
	if admin != "" && len(admin) < auth.MinAdminKey {
		warnings = append(warnings, fmt.Sprintf("admin_key (from %s) is short: anyone who guesses it controls every sale; "+
			"want at least %d random characters", origin, auth.MinAdminKey))
	}
	for key, given := range map[string]string{
		"buyer_secret_previous": c.BuyerSecretPrevious, "ticket_secret": c.TicketSecret,
		"ticket_secret_previous": c.TicketSecretPrevious, "webhook_key": c.WebhookKey,
	} {
		if given != "" && len(given) < auth.MinSecret {
			warnings = append(warnings, fmt.Sprintf("%s (from %s) is short: want at least %d random bytes", key, c.Origin(key),
				auth.MinSecret))
		}
	}
	slices.Sort(warnings)
	if c.BuyerSecret == "" && c.BuyerJWKS != "" {
		return warnings, nil // the kept one signs nothing then
	}
	secret, origin, err := kept("buyer_secret", c.BuyerSecret, buyerSecretFile)
	if err != nil {
		return nil, err
	}
	if secret != "" && len(secret) < auth.MinSecret {
		warnings = append(warnings,
			fmt.Sprintf("buyer_secret (from %s) is short: anyone who guesses it can act as any buyer; "+
				"HS256 wants at least %d random bytes", origin, auth.MinSecret))
	}
	return warnings, nil
}

func (a *app) configPrint() *cobra.Command {
	cmd := &cobra.Command{
		Use: "print", Short: "Show every setting and where its value comes from", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			rows := c.Rows()
			err = printList(a, map[string][]config.Row{"settings": rows}, []string{"SETTING", "VALUE", "FROM"}, rows,
				func(r *config.Row) []string { return []string{r.Key, r.Value, r.Origin} })
			a.say("%s", a.fileRead())
			return err
		},
	}
	config.AddFlags(cmd.Flags(), append(serverSettings, "url")...)
	return cmd
}
