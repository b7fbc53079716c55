package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/internal/config"
)

// serverSettings have a flag at serve, auditSettings at audit.
var (
	serverSettings = []string{
		"data_dir", "ledger", "store", "listen", "ready_file", "node", "tls_cert", "tls_key", "admin_key", "buyer_jwks", "buyer_issuer", "buyer_audience", "clock_skew",
		"log_level", "log_format", "shutdown_timeout", "refresh_interval", "login_url", "pay_url", "cors_origins", "event_streams", "events_per_address", "ledger_replica", "claim_queue", "claims_in_flight", "trusted_proxies", "client_address_header", "retention", "reconcile_interval", "expiry_interval", "abandoned_after", "wait_replicas",
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
				path = "sluice.yaml"
			}
			if err := config.WriteTemplate(path); err != nil {
				return usage(err)
			}
			if a.json {
				return a.printJSON(map[string]string{"path": path})
			}
			fmt.Fprintf(a.stdout, "wrote %s\n", path)
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
			if a.json {
				return a.printJSON(map[string]bool{"ok": true})
			}
			fmt.Fprintln(a.stdout, "the settings are right")
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), append(serverSettings, "url")...)
	return cmd
}

func (a *app) configPrint() *cobra.Command {
	cmd := &cobra.Command{
		Use: "print", Short: "Show every setting and where its value comes from", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string][]config.Row{"settings": c.Rows()})
			}
			var rows [][]string
			for _, r := range c.Rows() {
				rows = append(rows, []string{r.Key, r.Value, r.Origin})
			}
			a.printTable([]string{"SETTING", "VALUE", "FROM"}, rows)
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), append(serverSettings, "url")...)
	return cmd
}
