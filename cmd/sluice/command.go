package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/config"
)

// How commands are made: what they check of what was typed, and how they call
// a server.

// before adds a check of what was typed. Its error is one of usage.
func before(cmd *cobra.Command, check func(args []string) error) *cobra.Command {
	first := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if first != nil {
			if err := first(cmd, args); err != nil {
				return err
			}
		}
		if err := check(args); err != nil {
			return usage(err)
		}
		return nil
	}
	return cmd
}

// needs makes a flag one that must be given.
func needs(cmd *cobra.Command, flag string) *cobra.Command {
	return before(cmd, func([]string) error {
		if cmd.Flags().Lookup(flag).Value.String() == "" {
			return fmt.Errorf("--%s is missing", flag)
		}
		return nil
	})
}

// saleFlag adds --sale, for one sale or all.
func saleFlag(cmd *cobra.Command, sale *sluice.SaleID, help string) *cobra.Command {
	cmd.Flags().StringVar((*string)(sale), "sale", "", help)
	return before(cmd, func([]string) error {
		if !cmd.Flags().Changed("sale") {
			return nil
		}
		return checkSaleFlag(*sale)
	})
}

// saleOrAll lets a command take one SALE, as an argument or by --sale, or none for all.
func saleOrAll(cmd *cobra.Command, sale *sluice.SaleID) *cobra.Command {
	cmd.Use += " [SALE]"
	return saleArgument(cmd, sale, "only this `SALE` (default: all)", false)
}

// oneSale lets a command take a SALE, as an argument or by --sale.
func oneSale(cmd *cobra.Command, sale *sluice.SaleID, help string) *cobra.Command {
	cmd.Use += " SALE"
	return saleArgument(cmd, sale, help, true)
}

func saleArgument(cmd *cobra.Command, sale *sluice.SaleID, help string, needed bool) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		flag := cmd.Flags().Changed("sale")
		if len(args) == 0 && (flag || !needed) {
			return nil
		}
		if flag {
			return usage(errors.New("want SALE or --sale, not both"))
		}
		if err := exactly("SALE")(cmd, args); err != nil {
			return err
		}
		*sale = sluice.SaleID(args[0])
		return nil
	}
	return saleFlag(cmd, sale, help)
}

// saleFilter adds --sale, which may be empty, to a list of things.
func saleFilter(cmd *cobra.Command, sale *sluice.SaleID, things string) *cobra.Command {
	cmd.Flags().StringVar((*string)(sale), "sale", "", "only "+things+" of this `SALE`")
	return before(cmd, func([]string) error {
		if *sale == "" {
			return nil
		}
		return checkSaleFlag(*sale)
	})
}

func checkSaleFlag(sale sluice.SaleID) error {
	if err := sale.Validate(); err != nil {
		return fmt.Errorf("--sale: %w", err)
	}
	return nil
}

// pageFlag adds --limit, how much of a list is asked for at a time.
func pageFlag(cmd *cobra.Command, size *int, help string) *cobra.Command {
	cmd.Flags().IntVar(size, "limit", 100, help)
	return before(cmd, func([]string) error {
		if *size < 1 || *size > sluice.MaxPage {
			return fmt.Errorf("--limit: want 1 to %d", sluice.MaxPage)
		}
		return nil
	})
}

// exactly wants these arguments, by name; without names, none. It knows what a
// SALE and an ORDER look like.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s%s is missing", at(cmd), names[len(args)])
		case len(args) > len(names):
			return fmt.Errorf("%sunexpected argument %q", at(cmd), args[len(names)])
		}
		for i, name := range names {
			switch name {
			case "SALE":
				if err := sluice.SaleID(args[i]).Validate(); err != nil {
					return usage(err)
				}
			case "ORDER":
				if _, ok := sluice.OrderID(args[i]).Sale(); !ok {
					return usage(fmt.Errorf("order %q: want <sale>.<32 hex digits>", args[i]))
				}
			}
		}
		return nil
	}
}

// calls makes cmd one that calls the server as the merchant.
func (a *app) calls(cmd *cobra.Command, do func(context.Context, *client.Client, []string) error) *cobra.Command {
	cmd.RunE = a.with(func(cmd *cobra.Command, c *config.Config, args []string) error {
		key, err := adminKey(c)
		if err != nil {
			return err
		}
		cl, err := newClient(c.AdminURL, client.Options{AdminKey: key})
		if err != nil {
			return err
		}
		return do(cmd.Context(), cl, args)
	})
	clientFlags(cmd)
	return cmd
}

// verb is a command that makes one call about what its argument names, and
// shows the answer.
func verb[ID ~string, T any](a *app, use, short string,
	do func(*client.Client, context.Context, ID) (T, error), show func(T) error,
) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: exactly(strings.Fields(use)[1])}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		answer, err := do(c, ctx, ID(args[0]))
		if err != nil {
			return err
		}
		return show(answer)
	})
}

// The files in the data folder in which a server keeps what it generated.
const (
	adminKeyFile    = "admin.key"
	buyerSecretFile = "buyer.secret"
)

// clientFlags adds the flags of commands that speak to a server as the merchant.
func clientFlags(cmd *cobra.Command) {
	config.AddFlags(cmd.Flags(), "url", "admin_url", "admin_key", "data_dir")
	cmd.Flags().Lookup("url").Usage = "the server's `URL` (default http://127.0.0.1:8080)"
	cmd.Flags().Lookup(
		"admin-key").Usage = "the merchant's key (default: the key in data_dir, for a server on this machine)"
	keptIn(cmd)
}

// keptIn explains what --data-dir is for where there is no server to run.
func keptIn(cmd *cobra.Command) {
	cmd.Flags().Lookup(
		"data-dir").Usage = "data folder of a server on this machine, which keeps its keys there (default ./sluice-data)"
}

// adminKey is the key that was given, or the one that a server on this machine
// has generated.
func adminKey(c *config.Config) (string, error) {
	key, err := secretFor(c, c.AdminURL, c.AdminKey, adminKeyFile)
	if err == nil && key == "" {
		err = usage(fmt.Errorf("no admin key: give --admin-key or SLUICE_ADMIN_KEY; the server keeps a generated one in its "+
			"data folder as %s", adminKeyFile))
	}
	return key, err
}

func newClient(url string, o client.Options) (*client.Client, error) {
	cl, err := client.New(url, o)
	if err != nil {
		return nil, usage(err)
	}
	return cl, nil
}

// secretFor is keptSecret for a server. It never sends a server a secret that another one generated.
func secretFor(c *config.Config, url, given, file string) (string, error) {
	if given == "" && !isLoopbackURL(url) {
		return "", nil
	}
	return keptSecret(c, given, file)
}

// keptSecret returns a secret that was given, or the one that a server on this
// machine has generated; neither is no error.
func keptSecret(c *config.Config, given, file string) (string, error) {
	if given != "" {
		return given, nil
	}
	data, err := os.ReadFile(filepath.Join(c.DataDir, file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", usage(err)
	}
	return strings.TrimSpace(string(data)), nil
}

func isLoopbackURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && config.IsLoopback(u.Hostname())
}

// flagTime reads the time of a flag: RFC 3339, +10m, now, or none where that
// is the word. The error says what is wrong with it, and what would be right.
func flagTime(name, text string, now time.Time, word string) (api.Nullable[api.Time], error) {
	at, err := parseTime(text, now)
	if err == nil && at.Null && word != "none" {
		err = errors.New("")
	}
	if err == nil {
		return at, nil
	}
	why := err.Error()
	if why != "" {
		why += "; "
	}
	// An example in the past would not even do if it were copied.
	example := now.UTC().Add(24 * time.Hour).Truncate(time.Hour).Format(time.RFC3339)
	return at, fmt.Errorf("--%s %q: %swant a time like %s, +10m or %s", name, text, why, example, word)
}

// parseTime's error is what is wrong, or empty when that is anybody's guess.
func parseTime(text string, now time.Time) (api.Nullable[api.Time], error) {
	switch {
	case text == "none":
		return api.Null[api.Time](), nil
	case text == "now":
		return api.Value(api.At(now)), nil
	case strings.HasPrefix(text, "+"):
		d, err := time.ParseDuration(text[1:])
		if err != nil {
			return api.Nullable[api.Time]{}, errors.New(config.DurationHint(text[1:]))
		}
		return api.Value(api.At(now.Add(d))), nil
	}
	var at api.Time
	quoted, err := json.Marshal(text)
	if err == nil {
		err = at.UnmarshalJSON(quoted)
	}
	if err != nil {
		err = errors.New(timeFault(text))
	}
	return api.Value(at), err
}

var almostTime = regexp.MustCompile(
	`^(\d{4})-(\d\d?)-(\d\d?)(?:([Tt ])(\d\d?):(\d\d)(:\d\d(?:\.\d+)?)?)?([Zz]|[+-]\d\d:?\d\d)?$`)

// timeFault says what keeps a text from being a time of RFC 3339, or "".
func timeFault(text string) string {
	part := almostTime.FindStringSubmatch(text)
	if part == nil {
		return ""
	}
	number := func(digits string) int {
		n, _ := strconv.Atoi(digits) // the pattern lets only digits through
		return n
	}
	year, month, day := number(part[1]), number(part[2]), number(part[3])
	separator, hour, minute, seconds, zone := part[4], part[5], part[6], part[7], part[8]
	switch {
	case month < 1 || month > 12:
		return "there is no month " + part[2]
	case day < 1 || day > time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day():
		return fmt.Sprintf("%s %d has no day %s", time.Month(month), year, part[3])
	case len(part[2]) < 2 || len(part[3]) < 2 || len(hour) == 1:
		return "a digit is missing (write 05 for 5)"
	case separator == "":
		return "the time of day is missing (add T12:00:00Z)"
	case number(hour) > 23:
		return "there is no hour " + hour
	case number(minute) > 59:
		return "there is no minute " + minute
	case separator == " ":
		return "there is a space where T belongs"
	case seconds == "":
		return "the seconds are missing (add :00)"
	case number(seconds[1:3]) > 59:
		return "there is no second " + seconds[1:3]
	case zone == "":
		return "the time zone is missing (add Z for UTC, or an offset like +08:00)"
	case len(zone) == 5:
		return fmt.Sprintf("the time zone lacks its colon (write %s:%s)", zone[:3], zone[3:])
	}
	return ""
}

// flagValueFault is the sentence of a flag's value that cannot be read.
func flagValueFault(wrong *pflag.InvalidValueError) error {
	name, have := wrong.GetFlag().Name, wrong.GetValue()
	want := "another value"
	switch kind := wrong.GetFlag().Value.Type(); {
	case name == "price" || name == "list-price":
		want = "minor units, a whole number: " + minorUnits(have)
	case kind == "duration":
		want = "a duration like 250ms, 90s, 10m or 24h"
		if hint := config.DurationHint(have); hint != "" {
			return fmt.Errorf("--%s %q: %s; want %s", name, have, hint, want)
		}
	case kind == "bool":
		want = "true or false"
	case strings.HasPrefix(kind, "float"):
		want = "a number like 0.5"
	case strings.HasPrefix(kind, "uint"):
		want = "a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"):
		want = "a whole number"
	}
	if errors.Is(wrong, strconv.ErrRange) {
		want += " that is smaller"
		if strings.HasPrefix(have, "-") {
			want = strings.TrimSuffix(want, "smaller") + "nearer to 0"
		}
	}
	return fmt.Errorf("--%s %q: want %s", name, have, want)
}

var twoDecimals = regexp.MustCompile(`^(\d{1,15})\.(\d{1,2})$`)

// minorUnits shows how the price that was probably meant is written; how many
// decimals a currency has is the shop's to know.
func minorUnits(have string) string {
	part := twoDecimals.FindStringSubmatch(have)
	if part == nil {
		return "19900 for 199.00"
	}
	cents := (part[2] + "0")[:2]
	units := strings.TrimLeft(part[1]+cents, "0")
	if units == "" {
		units = "0"
	}
	return fmt.Sprintf("%s for %s.%s", units, part[1], cents)
}
