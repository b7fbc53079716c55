package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples holds the examples of commands that need a line or two; others have theirs
// beside their flags; ORDER becomes an order's id.
var examples = map[string]string{
	"admin log":          "--limit 20",
	"audit":              "phone",
	"config check":       "--config sluice.yaml",
	"config init":        "> sluice.yaml",
	"config print":       "--config sluice.yaml",
	"dead-letter list":   "--sale phone",
	"dead-letter replay": "7",
	"dead-letter show":   "7",
	"demo":               "--stock 100 --buyers 10000",
	"load":               "rehearsal --buyers 1000 --rate 500",
	"order cancel":       "ORDER",
	"order extend":       "ORDER --until +10m",
	"order history":      "ORDER",
	"order list":         "--sale phone --status paid --all",
	"order pay":          "ORDER --payment-id pay-0001",
	"order refund":       "ORDER",
	"order reject":       "ORDER --reason \"fraud\"",
	"order show":         "ORDER",
	"reconcile":          "phone --apply",
	"recover":            "--sale phone",
	"sale close":         "phone",
	"sale delete":        "phone",
	"sale list":          "--json",
	"sale open":          "phone",
	"sale pause":         "phone",
	"sale resume":        "phone",
	"sale show":          "phone",
	"version":            "--json",
	"webhook delete":     "wh_0123",
	"webhook deliveries": "wh_0123 --state failed",
	"webhook disable":    "wh_0123",
	"webhook enable":     "wh_0123",
	"webhook list":       "--json",
	"webhook show":       "wh_0123",
}

// exemplify adds them below the command.
func exemplify(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		exemplify(sub)
	}
	name := strings.TrimPrefix(cmd.CommandPath(), "sluice ")
	if arguments, ok := examples[name]; ok && cmd.Example == "" {
		order := strings.Replace(arguments, "ORDER", "phone.019a7d3e5f6b7c8d9e0f1a2b3c4d5e6f", 1)
		cmd.Example = "  " + cmd.CommandPath() + " " + order
	}
}
