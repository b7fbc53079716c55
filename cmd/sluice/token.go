package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/loadgen"
)

func (a *app) tokenCommand() *cobra.Command {
	var buyer string
	var sales []string
	var invited []sluice.SaleID
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "token --buyer BUYER", Short: "Print a buyer's token", Args: exactly(),
		Long: "Signs a buyer's token (JWT, HS256) with SLUICE_BUYER_SECRET, or with the secret\n" +
			"that a server keeps in its data folder. A shop signs them in its own login.",
		Example: "  sluice token --buyer alice --ttl 10m\n" +
			"  sluice token --buyer alice --invite phone,tablet",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			secret := c.BuyerSecret
			if secret == "" {
				secret, err = readSecret(filepath.Join(c.DataDir, buyerSecretFile))
			}
			if err != nil {
				return err
			}
			if secret == "" {
				return usage(fmt.Errorf("no buyer secret: set SLUICE_BUYER_SECRET, or give the --data-dir of a server that has " +
					"generated one"))
			}
			now := time.Now()
			token, err := loadgen.Minter{
				Secret: []byte(secret), Issuer: c.BuyerIssuer, Audience: c.BuyerAudience,
				Sales: invited,
			}.Mint(sluice.BuyerID(buyer), now, ttl)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(struct {
					Buyer     string   `json:"buyer"`
					Token     string   `json:"token"`
					ExpiresAt api.Time `json:"expires_at"`

					Sales []sluice.SaleID `json:"sales,omitempty"`
				}{buyer, token, api.At(now.Add(ttl)), invited})
			}
			fmt.Fprintln(a.stdout, token)
			return nil
		},
	}
	cmd.Flags().StringVar(&buyer, "buyer", "", "the buyer's `ID`, as the shop knows it (the token's sub)")
	cmd.Flags().StringArrayVar(&sales, "invite", nil,
		"the `SALES` that the buyer is invited to, with commas or once more each (the token's sluice_sales)")
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token is valid")
	config.AddFlags(cmd.Flags(), "data_dir")
	keptIn(cmd)
	return before(cmd, func([]string) (err error) {
		switch {
		case !cmd.Flags().Changed("buyer"):
			return errors.New("--buyer is missing")
		case ttl <= 0:
			return errors.New("--ttl: want a time to live above 0, like 1h")
		}
		if err := sluice.BuyerID(buyer).Validate(); err != nil {
			return fmt.Errorf("--buyer: %w", err)
		}
		invited, err = invitations(sales)
		return err
	})
}

// invitations reads the values of --invite: sales with commas between them.
func invitations(values []string) (sales []sluice.SaleID, err error) {
	for _, value := range values {
		for id := range strings.SplitSeq(value, ",") {
			sale := sluice.SaleID(strings.TrimSpace(id))
			if err := sale.Validate(); err != nil {
				return nil, fmt.Errorf("--invite %q: %w; want ids of sales, like phone,tablet", value, err)
			}
			if !slices.Contains(sales, sale) {
				sales = append(sales, sale)
			}
		}
	}
	return sales, nil
}
