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
	var sale sluice.SaleID
	cmd := &cobra.Command{
		Use: "audit", Short: "Prove from ledger, journal and store that nothing went wrong", Args: exactly(),
		Long: "Opens ledger and store read-only, recomputes the invariants and prints what it\n" +
			"compared; also while servers run. Exit code 3: a violation was found.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
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
		},
	}
	config.AddFlags(cmd.Flags(), auditSettings...)
	return saleFlag(cmd, &sale, "only this `SALE` (default: all)")
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
			a.printChecks(r.Checks)
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
	case sum.OK:
		return "Everything adds up."
	case sum.Violated():
		return "It does not add up."
	}
	return "Not everything could be checked."
}

// printChecks prints a line for each check.
func (a *app) printChecks(checks []sluice.AuditCheck) {
	lines := make([][]string, len(checks))
	for i, c := range checks {
		mark, color := "ok", lipgloss.Green
		switch {
		case c.Unchecked:
			mark, color = "??", lipgloss.Yellow
		case !c.OK:
			mark, color = "NO", lipgloss.Red
		}
		if terminal(a.stdout) != nil {
			mark = strings.NewReplacer("ok", "✓", "??", "?", "NO", "✗").Replace(mark)
			mark = lipgloss.NewStyle().Foreground(color).Bold(true).Render(mark)
		}
		lines[i] = []string{"  " + mark, c.ID, c.Name, c.Detail}
	}
	a.printColumns(lines, nil)
}
