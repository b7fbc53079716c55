package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) auditCommand() *cobra.Command {
	var sale sluice.SaleID
	cmd := &cobra.Command{
		Use: "audit", Short: "Prove from ledger, journal and store that nothing went wrong",
		Long: "Opens ledger and store read-only, recomputes the invariants and prints what does not " +
			"hold; also while servers run. --json has what each check compared. Exit code 3: a violation was found.",
		RunE: a.with(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			auditor, err := engine.OpenAudit(cmd.Context(), engineConfig(c, nil))
			if err != nil {
				return err
			}
			defer func() { _ = auditor.Close() }() // it was only read
			if sale == "" {
				reports, err := auditor.AuditAll(cmd.Context())
				if err != nil {
					return err
				}
				return a.printAudit(reports, true)
			}
			report, err := auditor.Audit(cmd.Context(), sale)
			if errors.Is(err, sluice.ErrSaleNotFound) {
				_, store := backends(engineConfig(c, nil))
				return fmt.Errorf("there is no sale %s in the store %s; give the --ledger and --store of the server, or its "+
					"--data-dir", sale, store)
			}
			if err != nil {
				return err
			}
			return a.printAudit([]sluice.AuditReport{report}, false)
		}),
	}
	config.AddFlags(cmd.Flags(), auditSettings...)
	return saleOrAll(cmd, &sale)
}

// printAudit prints the reports and returns what the exit code should be. Of
// all sales, the object is the sum, with the reports under "sales".
func (a *app) printAudit(reports []sluice.AuditReport, all bool) error {
	var sum sluice.AuditReport
	if all {
		sum = audit.Merge(reports)
	} else {
		sum = reports[0]
	}
	var err error
	switch {
	case a.json && all:
		err = a.printJSON(struct {
			sluice.AuditReport
			Sales []sluice.AuditReport `json:"sales"`
		}{sum, append([]sluice.AuditReport{}, reports...)})
	case a.json:
		err = a.printJSON(sum)
	default:
		for _, r := range reports {
			fmt.Fprintf(a.stdout, "Sale %s\n", r.Sale)
			a.printFindings(r.Checks)
			if r.InFlight > 0 {
				fmt.Fprintf(a.stdout, "  %s accepted and not stored yet\n", figures.Plural(r.InFlight, "order is", "orders are"))
			}
		}
		fmt.Fprintln(a.stdout, verdict(sum, len(reports)))
	}
	if err != nil {
		return err
	}
	return auditFailure(&sum)
}

// auditFailure is what the exit code should be.
func auditFailure(r *sluice.AuditReport) error {
	switch {
	case r.Violated():
		return &exitError{exitViolated, errors.New("the audit found a violation")}
	case !r.OK:
		return errors.New("the audit could not check everything")
	}
	return nil
}

func verdict(sum sluice.AuditReport, sales int) string {
	switch {
	case sales == 0:
		return "There are no sales."
	case sum.OK && slices.ContainsFunc(sum.Checks, func(c sluice.AuditCheck) bool { return c.Unchecked }):
		return "What is left adds up."
	case sum.OK:
		return "Everything adds up."
	case sum.Violated():
		return "It does not add up."
	}
	return "Not everything could be checked."
}

// printFindings prints the checks that passed as one line, and the others in full.
func (a *app) printFindings(checks []sluice.AuditCheck) {
	var passed []string
	var findings []sluice.AuditCheck
	for _, c := range checks {
		if c.OK {
			passed = append(passed, c.ID+" "+c.Name)
		} else {
			findings = append(findings, c)
		}
	}
	if len(passed) > 0 {
		a.printColumns([][]string{{a.mark(&sluice.AuditCheck{OK: true}), strings.Join(passed, ", ")}}, nil)
	}
	a.printChecks(findings)
}

// printChecks prints a line for each check.
func (a *app) printChecks(checks []sluice.AuditCheck) {
	lines := make([][]string, len(checks))
	for i, c := range checks {
		lines[i] = []string{a.mark(&c), c.ID, c.Name, c.Detail}
	}
	a.printColumns(lines, nil)
}

// mark shows at a glance what a check found.
func (a *app) mark(c *sluice.AuditCheck) string {
	plain, sign, color := "  ok", "  ✓", lipgloss.Green
	switch {
	case c.Unchecked:
		plain, sign, color = "  ??", "  ?", lipgloss.Yellow
	case !c.OK:
		plain, sign, color = "  NO", "  ✗", lipgloss.Red
	}
	if a.columns == 0 {
		return plain
	}
	return lipgloss.NewStyle().Foreground(color).Bold(true).Render(sign)
}

func (a *app) reconcileCommand() *cobra.Command {
	var sale sluice.SaleID
	var apply bool
	cmd := &cobra.Command{
		Use: "reconcile", Short: "Compare ledger and store, and repair what is safe",
		Long: "Compares the ledger, its journal, the store and its outbox, also while a sale runs, " +
			"and says what differs. With --apply it stores lost orders from the ledger's records, " +
			"writes lost releases again, counts the store's units again, and has a sale rebuilt " +
			"whose ledger has lost something. Servers do so by themselves. Exit code 2: something " +
			"differs and is not repaired.",
	}
	saleOrAll(cmd, &sale)
	cmd.Flags().BoolVar(&apply, "apply", false, "repair what is safe")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		ids, err := chosenSales(ctx, c, sale, func(*api.AdminSale) bool { return true })
		if err != nil {
			return err
		}
		list := reconciled{Reports: []api.ReconcileReport{}}
		for _, id := range ids {
			report, err := c.ReconcileSale(ctx, id, apply)
			if err != nil {
				return err
			}
			list.Reports = append(list.Reports, report)
		}
		return a.printReconciled(list)
	})
}

// chosenSales returns the sale that was asked for, or all that a command without --sale looks at.
func chosenSales(
	ctx context.Context, c *client.Client, asked sluice.SaleID, which func(*api.AdminSale) bool,
) (ids []sluice.SaleID, err error) {
	if asked != "" {
		return []sluice.SaleID{asked}, nil
	}
	sales, err := c.AdminSales(ctx)
	for i := range sales {
		if which(&sales[i]) {
			ids = append(ids, sales[i].ID)
		}
	}
	return ids, err
}

// firstAndMore names the first of n orders, and how many more there are.
func firstAndMore(orders []sluice.OrderID, n int64) string {
	switch {
	case len(orders) == 0:
		return ""
	case n == 1:
		return string(orders[0])
	}
	return fmt.Sprintf("%s and %s more", orders[0], figures.Thousands(n-1))
}

// reconciled is what reconcile prints with --json.
type reconciled struct {
	Reports []api.ReconcileReport `json:"reports"`
}

// printReconciled prints the reports; what remains is a failure.
func (a *app) printReconciled(list reconciled) error {
	remaining, hint := int64(0), ""
	var rows [][]string
	for _, r := range list.Reports {
		remaining += r.Remaining
		if !r.Applied && r.Skipped == "" {
			hint = "; --apply repairs what is safe to repair"
		}
		before := len(rows)
		for _, d := range r.Differences {
			if d.Count == 0 || r.Skipped != "" {
				continue
			}
			said := strings.Join(d.Details, "; ")
			if said == "" {
				said = firstAndMore(d.Orders, d.Count)
			}
			rows = append(rows, []string{
				string(r.SaleID), string(d.Class), figures.Thousands(d.Count), figures.Thousands(d.Repaired), said,
			})
		}
		switch {
		case r.Skipped != "":
			rows = append(rows, []string{string(r.SaleID), "not compared", "", "", r.Skipped})
		case len(rows) == before:
			rows = append(rows, []string{string(r.SaleID), "in step", "", "", ""})
		}
	}
	err := a.printTable(list, []string{"SALE", "DIFFERENCE", ">FOUND", ">REPAIRED", "WHAT"}, rows)
	if err == nil && remaining > 0 {
		err = fmt.Errorf("%s not repaired%s", figures.Plural(remaining, "difference is", "differences are"), hint)
	}
	return err
}

func (a *app) backupCommand() *cobra.Command {
	var to string
	var secrets bool
	cmd := &cobra.Command{
		Use: "backup", Short: "Copy an embedded ledger and store, also while a server runs", Args: exactly(),
		Long: "Copies ledger and store to a new folder, each as it is at one moment, the ledger " +
			"first. The folder appears when it is complete. It is a data folder: to restore, " +
			"start a server on it, or on a copy of it. Each sale is then rebuilt before its " +
			"first claim. Redis, PostgreSQL and MySQL are backed up with their own tools.",
		Example: "  sluice backup --to backup-1 --with-secrets\n" +
			"  sluice audit --data-dir backup-1",
		RunE: a.with(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			report, err := engine.Backup(cmd.Context(), engineConfig(c, nil), to, secrets)
			if err != nil {
				return err
			}
			return a.printBackup(&report, c.DataDir, secrets)
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "`FOLDER` to make, or an empty folder")
	cmd.Flags().BoolVar(&secrets, "with-secrets", false,
		"copy admin.key and buyer.secret too, where the data folder has them")
	config.AddFlags(cmd.Flags(), auditSettings...)
	return needs(cmd, "to")
}

// backupJSON is what a backup prints with --json.
type backupJSON struct {
	Folder  string   `json:"folder"`
	At      api.Time `json:"at"`
	Ledger  any      `json:"ledger"`
	Store   any      `json:"store"`
	Secrets []string `json:"secrets"`
}

func (a *app) printBackup(r *engine.BackupReport, dataDir string, secrets bool) error {
	if a.json {
		return a.printJSON(backupJSON{r.Folder, api.At(r.At), r.Ledger, r.Store, append([]string{}, r.Secrets...)})
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
