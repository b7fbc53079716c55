package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/config"
)

// saleReport is what sale check prints with --json.
type saleReport struct {
	SaleID sluice.SaleID   `json:"sale_id"`
	Status api.CheckStatus `json:"status"` // the worst of the checks
	Checks []serverCheck   `json:"checks"`
}

// serverCheck is one check of one server, or with an empty server of all.
type serverCheck struct {
	Server string `json:"server"`
	api.Check
}

func (a *app) saleCheck() *cobra.Command {
	var more []string
	var token string
	cmd := &cobra.Command{
		Use: "check SALE", Short: "See whether a sale is ready to be sold", Args: exactly("SALE"),
		Long: "Asks the server, and each of --server, whether the sale is loaded, when it opens, what\n" +
			"it asks of buyers, whether the clocks agree, and what has become of the claims that\n" +
			"came; has it verify a token, ask the risk service once, and rehearse a claim, which\n" +
			"takes no unit (for that it needs an operator's key); and compares what the servers say.\n" +
			"Of what is wrong it says where, and what would be right.\n" +
			"Exit code 0 if all is ok or only worth a look (warn), 2 if something fails.",
		Example: "  sluice sale check phone\n  sluice sale check phone --server http://10.0.0.2:8080 --server " +
			"http://10.0.0.3:8080",
		RunE: a.with(func(cmd *cobra.Command, settings *config.Config, args []string) error {
			for _, url := range more {
				if settings.AdminKey == "" && !isLoopbackURL(url) { // the kept key is never sent elsewhere
					return usage(fmt.Errorf("--server %s is on another machine: give --admin-key or SLUICE_ADMIN_KEY",
						auth.Redact(url)))
				}
			}
			key, err := adminKey(settings)
			if err != nil {
				return err
			}
			report := saleReport{SaleID: sluice.SaleID(args[0])}
			var answers []api.SaleCheck
			for _, url := range append([]string{settings.AdminURL}, more...) {
				c, err := client.New(url, client.Options{AdminKey: key})
				if err != nil {
					return usage(fmt.Errorf("--server %s: %w", auth.Redact(url), err))
				}
				answers = report.ask(cmd.Context(), c, auth.Redact(url), token, answers)
			}
			report.compare(answers)
			return a.printSaleReport(&report)
		}),
	}
	cmd.Flags().StringArrayVar(&more, "server", nil, "`URL` of one more server to ask; can be given several times")
	cmd.Flags().StringVar(&token, "token", "", "a buyer's `TOKEN` of your login, to be verified (default: the server "+
		"makes its own)")
	clientFlags(cmd)
	return before(cmd, func([]string) error {
		if cmd.Flags().Changed("token") && token == "" { // the server's own one would be good
			return errors.New("--token is empty")
		}
		return nil
	})
}

func (r *saleReport) say(server, name string, status api.CheckStatus, format string, args ...any) {
	r.Checks = append(r.Checks, serverCheck{server, api.Check{
		Name: name, Status: status, Detail: fmt.Sprintf(format, args...),
	}})
}

// ask adds what one server says.
func (r *saleReport) ask(ctx context.Context, c *client.Client, url, token string,
	answers []api.SaleCheck,
) []api.SaleCheck {
	answer, err := c.CheckSale(ctx, r.SaleID)
	if err != nil {
		r.say(url, "known", api.CheckFail, "%v", err)
		return answers
	}
	checks := answer.Checks
	rehearsal, err := c.RehearseClaim(ctx, r.SaleID, token)
	if err != nil {
		checks = append(checks, api.Check{
			Name: "claim", Status: api.CheckWarn, Detail: fmt.Sprintf("not rehearsed: %v", err),
			Where: "--admin-key", Right: "a key with the role operator, and a server that answers",
		})
	}
	for _, check := range append(checks, rehearsal.Checks...) {
		r.Checks = append(r.Checks, serverCheck{answer.Node, check})
	}
	return append(answers, answer)
}

// compare adds what only all servers together show.
func (r *saleReport) compare(answers []api.SaleCheck) {
	defer r.sum()
	if len(answers) == 0 {
		return
	}
	asked := map[string]bool{}
	differ := func(status api.CheckStatus, what string, of func(*api.SaleCheck) string) {
		var all []string
		for i := range answers {
			all = append(all, of(&answers[i]))
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) > 1 {
			r.say("", "servers", status, "they differ in %s: %s", what, strings.Join(all, ", "))
		}
	}
	for i := range answers {
		asked[answers[i].Node] = true
	}
	r.settings(answers, differ)
	differ(api.CheckFail, "the secret of tickets (set ticket_secret)", func(c *api.SaleCheck) string {
		return c.TicketKey
	})
	differ(api.CheckFail, "the load of the sale (a moment later they may agree)", func(c *api.SaleCheck) string {
		return fmt.Sprintf("epoch %d, terms %d", c.Epoch, c.Terms)
	})
	var missing []string
	for _, node := range answers[0].LiveNodes {
		if !asked[node] {
			missing = append(missing, node)
		}
	}
	if len(missing) > 0 {
		r.say("", "servers", api.CheckWarn, "%d of %d live ones were asked; give --server for %s",
			len(answers[0].LiveNodes)-len(missing), len(answers[0].LiveNodes), strings.Join(missing, ", "))
	} else {
		r.say("", "servers", api.CheckOK, "all %d live ones were asked", len(asked))
	}
}

// settings compares those that all servers need alike, of servers that say theirs. With
// other proxies or origins some buyers may be refused; with any other one, all are on some
// servers, or they have their limits twice.
func (r *saleReport) settings(answers []api.SaleCheck,
	differ func(api.CheckStatus, string, func(*api.SaleCheck) string),
) {
	for _, a := range answers {
		if len(a.Settings) != len(answers[0].Settings) {
			return // of an older version
		}
	}
	for i, setting := range answers[0].Settings {
		status := api.CheckFail
		if setting.Name == "trusted_proxies" || setting.Name == "cors_origins" {
			status = api.CheckWarn
		}
		differ(status, "the setting "+setting.Name, func(c *api.SaleCheck) string {
			return cmp.Or(c.Settings[i].Value, "none")
		})
	}
}

func (r *saleReport) sum() {
	r.Status = api.CheckOK
	for _, c := range r.Checks {
		if c.Status == api.CheckFail || c.Status == api.CheckWarn && r.Status == api.CheckOK {
			r.Status = c.Status
		}
	}
}

func (a *app) printSaleReport(r *saleReport) error {
	headers := []string{"STATUS", "SERVER", "CHECK", "DETAIL", "WHERE", "RIGHT"}
	worst := []api.CheckStatus{api.CheckFail, api.CheckWarn, api.CheckOK}
	place := func(c *serverCheck) int { // what was counted may be the consequence of what was found
		if c.Name == "claims" {
			return 2*slices.Index(worst, c.Status) + 1
		}
		return 2 * slices.Index(worst, c.Status)
	}
	slices.SortStableFunc(r.Checks, func(a, b serverCheck) int { return cmp.Compare(place(&a), place(&b)) })
	err := printList(a, r, headers, r.Checks, func(c *serverCheck) []string {
		return []string{string(c.Status), cmp.Or(c.Server, "all"), c.Name, c.Detail, c.Where, c.Right}
	})
	if err == nil && r.Status == api.CheckFail {
		return &exitError{code: exitFailed} // the table says it
	}
	return err
}
