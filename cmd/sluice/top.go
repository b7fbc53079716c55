package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) topCommand() *cobra.Command {
	var sale sluice.SaleID
	cmd := saleOrAll(&cobra.Command{
		Use: "top", Short: "Watch what is sold, second by second, and what is wrong",
		Long: "Shows what is wrong now and, of each sale that is open or opens within an hour, what is sold and left, " +
			"claims a second over all servers, how long 99 of 100 answers of those servers took at most (to claims on any " +
			"sale), and how many journal entries wait to be stored. In a terminal it redraws every second until Ctrl+C; " +
			"otherwise it prints once.",
		Example: "  sluice top\n  sluice top phone\n  sluice top --json",
	}, &sale)
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error { return a.follow(ctx, c, sale) })
}

// saleShow shows a sale once, or as top does.
func (a *app) saleShow() *cobra.Command {
	watch := false
	cmd := &cobra.Command{Use: "show SALE", Short: "Show a sale", Args: exactly("SALE")}
	a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if watch {
			return a.follow(ctx, c, sluice.SaleID(args[0]))
		}
		s, err := c.AdminSale(ctx, sluice.SaleID(args[0]))
		if err != nil {
			return err
		}
		return a.printSale(s)
	})
	cmd.Flags().BoolVar(&watch, "watch", false, "show what happens, every second, as sluice top SALE does")
	return cmd
}

// glance is what top shows.
type glance struct {
	Status api.Status   `json:"status"`
	Sales  []glanceSale `json:"sales"`
}

type glanceSale struct {
	SaleID   sluice.SaleID `json:"sale_id"`
	State    sluice.State  `json:"state"`
	Taken    int64         `json:"taken"`
	Total    *int64        `json:"total"` // null: it has none
	Claims   int64         `json:"claims_per_s"`
	Accepted int64         `json:"accepted_per_s"`
	P99Ms    float64       `json:"p99_ms"`
	Backlog  int64         `json:"backlog"`
}

const (
	// glanceSoon is how long before its opening a sale is shown, and mostGlanced how many are.
	glanceSoon  = time.Hour
	mostGlanced = 20
	// glanceTail is how much of a curve is asked for. Of it the second counts that all servers have told of.
	glanceTail = 10 * time.Second
)

// listEvery is how often all sales are asked for, which a server with many of them has work with.
const listEvery = 10 * time.Second

// follow shows a sale, or all that are going on, until the context ends.
func (a *app) follow(ctx context.Context, c *client.Client, only sluice.SaleID) error {
	screen, shown, listed := terminal(a.stdout), []sluice.SaleID{only}, time.Time{}
	for {
		var g glance
		var err error
		if only == "" && time.Since(listed) > listEvery {
			if shown, err = goingOn(ctx, c); err == nil {
				listed = time.Now()
			}
		}
		if err == nil {
			g, err = look(ctx, c, only, shown)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && screen == nil:
			return err
		case screen != nil && !a.json:
			_, _ = io.WriteString(screen, "\x1b[H\x1b[J") // from the top of an empty screen
		}
		if err != nil {
			fmt.Fprintf(a.stdout, "%s\n", err) // it may answer again
		} else if err := a.printGlance(g); err != nil {
			return err
		}
		if screen == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// goingOn returns the sales that are open, and then those that open soon, the next ones first.
func goingOn(ctx context.Context, c *client.Client) (ids []sluice.SaleID, err error) {
	all, err := c.AdminSales(ctx)
	if err != nil {
		return nil, err
	}
	upcoming := func(s *api.AdminSale) int {
		if s.State == sluice.StateUpcoming {
			return 1
		}
		return 0
	}
	all = slices.DeleteFunc(all, func(s api.AdminSale) bool {
		later := s.State == sluice.StateUpcoming && s.OpensAt.Sub(s.ServerTime.Time) > glanceSoon
		return later || s.State == sluice.StateClosed
	})
	slices.SortFunc(all, func(a, b api.AdminSale) int {
		first := a.OpensAt.Compare(b.OpensAt.Time)
		if upcoming(&a) == 0 {
			first = -first
		}
		return cmp.Or(cmp.Compare(upcoming(&a), upcoming(&b)), first, cmp.Compare(a.ID, b.ID))
	})
	for i := range all[:min(len(all), mostGlanced)] {
		ids = append(ids, all[i].ID)
	}
	return ids, nil
}

// look asks a server for what top shows.
func look(ctx context.Context, c *client.Client, only sluice.SaleID, ids []sluice.SaleID) (g glance, err error) {
	g.Sales = []glanceSale{}
	if g.Status, err = c.Status(ctx, only); err != nil {
		return g, err
	}
	for _, id := range ids {
		s, err := c.AdminSale(ctx, id)
		if err != nil {
			return g, err
		}
		row := glanceSale{SaleID: s.ID, State: s.State, Taken: s.Taken, Total: s.Total, Backlog: s.Backlog}
		curve, err := c.Curve(ctx, s.ID, g.Status.ServerTime.Add(-glanceTail), time.Time{})
		if err != nil {
			return g, err
		}
		if at := curve.Settled(); at >= 0 {
			row.Claims, row.Accepted, row.P99Ms = curve.Claims(at), curve.Answers["accepted"][at], curve.P99Ms[at]
		}
		g.Sales = append(g.Sales, row)
	}
	return g, nil
}

func (a *app) printGlance(g glance) error {
	if a.json {
		return a.printJSON(g)
	}
	silent := 0
	for _, s := range g.Status.Servers {
		if s.Silent {
			silent++
		}
	}
	servers := figures.Plural(len(g.Status.Servers)-silent, "server", "servers")
	if silent > 0 {
		servers += fmt.Sprintf(", %d silent", silent)
	}
	fmt.Fprintf(a.stdout, "%s  %s\n", a.local(&g.Status.ServerTime), servers)
	for _, c := range g.Status.Conditions {
		where := ""
		if c.SaleID != "" {
			where = string(c.SaleID) + ": "
		}
		detail := ""
		if c.Detail != "" {
			detail = " (" + c.Detail + ")"
		}
		fmt.Fprintln(a.stdout, hang(clean(fmt.Sprintf("%s: %s%s %s %s%s", c.Urgency, where, c.What, c.Cost, c.Do, detail)),
			2, a.columns))
	}
	if len(g.Status.Conditions) == 0 {
		fmt.Fprintln(a.stdout, "Nothing that this server can see is wrong.")
	}
	fmt.Fprintln(a.stdout)
	headers := []string{"SALE", "STATE", ">SOLD", ">LEFT", ">CLAIMS/S", ">ACCEPTED/S", ">P99", ">WAITING"}
	return printList(a, g, headers, g.Sales, func(s *glanceSale) []string {
		sold, left, p99 := figures.Thousands(s.Taken), "no limit", "-"
		if s.Total != nil {
			if *s.Total > 0 {
				sold += fmt.Sprintf(" (%d%%)", s.Taken*100 / *s.Total)
			}
			left = figures.Thousands(*s.Total - s.Taken)
		}
		if s.P99Ms > 0 {
			p99 = fmt.Sprintf("%.0f ms", s.P99Ms)
		}
		return []string{
			string(s.SaleID), string(s.State), sold, left, figures.Thousands(s.Claims), figures.Thousands(s.Accepted), p99,
			figures.Thousands(s.Backlog),
		}
	})
}
