package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) backupCommand() *cobra.Command {
	var to string
	var secrets bool
	cmd := &cobra.Command{
		Use: "backup", Short: "Copy an embedded ledger and store, also while a server runs", Args: exactly(),
		Long: "Copies ledger and store to a new folder, each as it is at one moment, the ledger\n" +
			"first. The folder appears when it is complete. It is a data folder: to restore,\n" +
			"start a server on it, or on a copy of it. Each sale is then rebuilt before its\n" +
			"first claim. Redis, PostgreSQL and MySQL are backed up with their own tools.",
		Example: "  sluice backup --to backup-1 --with-secrets\n" +
			"  sluice audit --data-dir backup-1",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			report, err := engine.Backup(cmd.Context(), engineConfig(c, nil), to, secrets)
			if err != nil {
				return err
			}
			return a.printBackup(&report, c.DataDir, secrets)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the `FOLDER` to make; it may exist if it is empty")
	cmd.Flags().BoolVar(&secrets, "with-secrets", false,
		"copy admin.key and buyer.secret too, where the data folder has them")
	config.AddFlags(cmd.Flags(), auditSettings...)
	return needs(cmd, "to")
}

// backupJSON is what a backup prints with --json.
type backupJSON struct {
	Folder string `json:"folder"`
	At     string `json:"at"`
	Ledger struct {
		Sales int64 `json:"sales"`
		Rows  int64 `json:"rows"`
		Bytes int64 `json:"bytes"`
	} `json:"ledger"`
	Store struct {
		Sales  int64 `json:"sales"`
		Orders int64 `json:"orders"`
		Bytes  int64 `json:"bytes"`
	} `json:"store"`
	Secrets []string `json:"secrets"`
}

func (a *app) printBackup(r *engine.BackupReport, dataDir string, secrets bool) error {
	if a.json {
		j := backupJSON{
			Folder: r.Folder, At: r.At.Format("2006-01-02T15:04:05.000Z07:00"),
			Secrets: append([]string{}, r.Secrets...),
		}
		j.Ledger.Sales, j.Ledger.Rows, j.Ledger.Bytes = r.Ledger.Sales, r.Ledger.Rows, r.Ledger.Bytes
		j.Store.Sales, j.Store.Orders, j.Store.Bytes = r.Store.Sales, r.Store.Orders, r.Store.Bytes
		return a.printJSON(j)
	}
	rows := [][]string{
		{"ledger.db", figures.Thousands(r.Ledger.Bytes), figures.Plural(r.Ledger.Sales, "sale", "sales") + ", " +
			figures.Plural(r.Ledger.Rows, "row", "rows") + " of the log"},
		{"store.db", figures.Thousands(r.Store.Bytes), figures.Plural(r.Store.Sales, "sale", "sales") + ", " +
			figures.Plural(r.Store.Orders, "order", "orders")},
	}
	for _, name := range r.Secrets {
		rows = append(rows, []string{name, "", "a secret"})
	}
	_ = a.printTable(nil, []string{"FILE", ">BYTES", "HOLDS"}, rows)
	fmt.Fprintln(a.stdout, "Backed up to "+r.Folder)
	switch {
	case !secrets:
		a.say("The keys are not in it; --with-secrets copies admin.key, buyer.secret and webhook.key.")
	case !slices.Contains(r.Secrets, adminKeyFile) || !slices.Contains(r.Secrets, buyerSecretFile):
		a.say("%s does not have both admin.key and buyer.secret: keep what you have configured with the backup.",
			filepath.Clean(dataDir))
	}
	return nil
}
