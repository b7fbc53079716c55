package main

import (
	"errors"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) auditCommand() *cobra.Command {
	var sale string
	cmd := &cobra.Command{
		Use: "audit", Short: "Prove from ledger, journal and store that nothing went wrong", Args: exactly(),
		Long: "Opens ledger and store read-only, recomputes the invariants and prints what it\n" +
			"compared; also while servers run. Exit code 3: a violation was found.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("sale") {
				if err := sluice.SaleID(sale).Validate(); err != nil {
					return usage(fmt.Errorf("--sale: %w", err))
				}
			}
			auditor, err := engine.OpenAudit(cmd.Context(), engineConfig(c, nil))
			if err != nil {
				return err
			}
			defer func() { _ = auditor.Close() }() // it was only read
			var reports []sluice.AuditReport
			if sale != "" {
				report, err := auditor.Audit(cmd.Context(), sluice.SaleID(sale))
				if errors.Is(err, sluice.ErrSaleNotFound) {
					_, store := backends(engineConfig(c, nil))
					return fmt.Errorf(
						"there is no sale %s in the store %s; give the --ledger and --store of the server, or its --data-dir", sale,
						store)
				}
				if err != nil {
					return err
				}
				reports = []sluice.AuditReport{report}
			} else if reports, err = auditor.AuditAll(cmd.Context()); err != nil {
				return err
			}
			return a.printAudit(reports, sale == "")
		},
	}
	cmd.Flags().StringVar(&sale, "sale", "", "only this `SALE` (default: all)")
	config.AddFlags(cmd.Flags(), auditSettings...)
	return cmd
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
			a.printChecks(checkRows(r))
			if r.InFlight > 0 {
				fmt.Fprintf(a.stdout, "  %s accepted and not stored yet\n", figures.Plural(r.InFlight, "order is", "orders are"))
			}
		}
		fmt.Fprintln(a.stdout, verdict(sum, len(reports)))
	}
	switch {
	case err != nil:
		return err
	case sum.Violated():
		return &exitError{exitViolated, errors.New("the audit found a violation")}
	case !sum.OK:
		return errors.New("the audit could not check everything")
	}
	return nil
}

func verdict(sum sluice.AuditReport, sales int) string {
	switch {
	case sales == 0:
		return "There are no sales."
	case sum.OK:
		return "Everything adds up."
	case sum.Violated():
		return "It does not add up."
	}
	return "Not everything could be checked."
}

// checkRow is one line of an audit for people.
type checkRow struct {
	id, name, detail string
	ok, unchecked    bool
}

func checkRows(r sluice.AuditReport) []checkRow {
	rows := make([]checkRow, len(r.Checks))
	for i, c := range r.Checks {
		rows[i] = checkRow{c.ID, c.Name, c.Detail, c.OK, c.Unchecked}
	}
	return rows
}

func (a *app) printChecks(rows []checkRow) {
	lines := make([][]string, len(rows))
	for i, r := range rows {
		mark, color := "ok", lipgloss.Green
		switch {
		case r.unchecked:
			mark, color = "??", lipgloss.Yellow
		case !r.ok:
			mark, color = "NO", lipgloss.Red
		}
		if terminal(a.stdout) != nil {
			mark = strings.NewReplacer("ok", "✓", "??", "?", "NO", "✗").Replace(mark)
			mark = lipgloss.NewStyle().Foreground(color).Bold(true).Render(mark)
		}
		lines[i] = []string{"  " + mark, r.id, r.name, r.detail}
	}
	a.printColumns(lines, nil)
}
