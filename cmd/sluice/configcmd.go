package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// auditSettings have a flag at audit.
var auditSettings = []string{"data_dir", "ledger", "store"}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Write, check and show settings",
		Long: "Settings come from, the later wins: defaults, the file of --config (YAML), the " +
			"environment (SLUICE_...), flags.",
	}
	return group(cmd, a.configInit(), a.configCheck(), a.configPrint())
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
		RunE: a.with(func(cmd *cobra.Command, c *config.Config, _ []string) error {
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
		}),
	}
	serverFlags(cmd, "url")
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
	s := auth.Secrets{
		BuyerSecretPrevious: c.BuyerSecretPrevious, TicketSecret: c.TicketSecret,
		TicketSecretPrevious: c.TicketSecretPrevious, WebhookKey: c.WebhookKey,
	}
	if s.AdminKey, err = keptSecret(c, c.AdminKey, adminKeyFile); err != nil {
		return nil, err
	}
	if c.BuyerSecret != "" || c.BuyerJWKS == "" { // else the kept one signs nothing
		if s.BuyerSecret, err = keptSecret(c, c.BuyerSecret, buyerSecretFile); err != nil {
			return nil, err
		}
	}
	for _, short := range s.Short() {
		from := c.Origin(short.Setting)
		switch {
		case short.Setting == "admin_key" && c.AdminKey == "":
			from = filepath.Join(c.DataDir, adminKeyFile)
		case short.Setting == "buyer_secret" && c.BuyerSecret == "":
			from = filepath.Join(c.DataDir, buyerSecretFile)
		}
		warnings = append(warnings, fmt.Sprintf("%s (from %s) is short: %s; want at least %d random bytes", short.Setting,
			from, short.Harm, short.Least))
	}
	return warnings, nil
}

func (a *app) configPrint() *cobra.Command {
	cmd := &cobra.Command{
		Use: "print", Short: "Show every setting and where its value comes from", Args: exactly(),
		RunE: a.with(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			rows := c.Rows()
			err := printList(a, map[string][]config.Row{"settings": rows}, []string{"SETTING", "VALUE", "FROM"}, rows,
				func(r *config.Row) []string { return []string{r.Key, r.Value, r.Origin} })
			a.say("%s", a.fileRead())
			return err
		}),
	}
	serverFlags(cmd, "url")
	return cmd
}

func (a *app) tokenCommand() *cobra.Command {
	var buyer string
	var sales []string
	var invited []sluice.SaleID
	var signed map[string]string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "token --buyer BUYER", Short: "Print a buyer's token", Args: exactly(),
		Long: "Signs a buyer's token (JWT, HS256) with SLUICE_BUYER_SECRET, or with the secret " +
			"that a server keeps in its data folder. A shop signs tokens in its own login.",
		Example: "  sluice token --buyer alice --ttl 10m\n" +
			"  sluice token --buyer alice --invite phone,tablet",
		RunE: a.with(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			secret, err := keptSecret(c, c.BuyerSecret, buyerSecretFile)
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
				Sales: invited, Signed: signed,
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
		}),
	}
	cmd.Flags().StringVar(&buyer, "buyer", "", "the buyer's `ID`, as the shop knows it (the token's sub)")
	cmd.Flags().StringArrayVar(&sales, "invite", nil,
		"`SALES` that the buyer is invited to, with commas between them (the token's sluice_sales)")
	cmd.Flags().StringToStringVar(&signed, "claim", nil,
		"another claim of the token, `NAME=VALUE` like household=17, which a sale may have a limit by")
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
		for name, value := range signed {
			if !sluice.Limitable(name) || value == "" || len(value) > sluice.MaxSigned {
				return fmt.Errorf("--claim %s: want a name of 1 to 32 small letters, digits and _, none that tokens have "+
					"anyway, and a value of 1 to %d bytes", name, sluice.MaxSigned)
			}
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
