package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/config"
)

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
	key, err := keptSecret(c, c.AdminURL, c.AdminKey, adminKeyFile)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, usage(
			fmt.Errorf("no admin key: give --admin-key or SLUICE_ADMIN_KEY; the server keeps a generated one in its data "+
				"folder as %s", adminKeyFile))
	}
	return newClient(c.AdminURL, client.Options{AdminKey: key})
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
