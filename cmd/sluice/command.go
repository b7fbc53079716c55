package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
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

// saleFilter adds --sale, which may be empty, to a list.
func saleFilter(cmd *cobra.Command, sale *sluice.SaleID) *cobra.Command {
	cmd.Flags().StringVar((*string)(sale), "sale", "", "only of this `SALE`")
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
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.merchant(cmd)
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
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

// clientFlags are those of the commands that speak to a server as the merchant.
func clientFlags(cmd *cobra.Command) {
	config.AddFlags(cmd.Flags(), "url", "admin_url", "admin_key", "data_dir")
	cmd.Flags().Lookup("url").Usage = "the server (default http://127.0.0.1:8080)"
	cmd.Flags().Lookup(
		"admin-key").Usage = "the merchant's key (default: for a server on this machine, the one in data_dir)"
	keptIn(cmd)
}

// keptIn explains what --data-dir is for where there is no server to run.
func keptIn(cmd *cobra.Command) {
	cmd.Flags().Lookup(
		"data-dir").Usage = "data folder of a server on this machine, for its key and secret (default ./sluice-data)"
}

// merchant makes a client for the merchant's calls.
func (a *app) merchant(cmd *cobra.Command) (*client.Client, error) {
	c, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	key, err := adminKey(c)
	if err != nil {
		return nil, err
	}
	return newClient(c.AdminURL, client.Options{AdminKey: key})
}

// adminKey is the key that was given, or the one that a server on this machine
// has generated.
func adminKey(c *config.Config) (string, error) {
	key, err := keptSecret(c, c.AdminURL, c.AdminKey, adminKeyFile)
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

// keptSecret returns a secret that was given, or the one that a server on this
// machine has generated. That one is never sent elsewhere.
func keptSecret(c *config.Config, url, given, file string) (string, error) {
	if given != "" {
		return given, nil
	}
	if !isLoopbackURL(url) {
		return "", nil
	}
	return readSecret(filepath.Join(c.DataDir, file))
}

// readSecret reads a kept secret; none is no error.
func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", usage(err)
	}
	return strings.TrimSpace(string(data)), nil
}

func isLoopbackURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && config.IsLoopback(u.Hostname())
}
