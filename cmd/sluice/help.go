package main

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice/internal/config"
)

func init() {
	cobra.AddTemplateFunc("hang", hang)
	cobra.AddTemplateFunc("short", func(cmd *cobra.Command, columns int) string {
		return hang(cmd.Short, len("  ")+cmd.NamePadding()+len(" "), columns)
	})
	cobra.AddTemplateFunc("flagGroups", flagGroups)
}

// fitHelp makes cobra's help fit the terminal.
func fitHelp(root *cobra.Command, columns int) {
	fit := func(template string) string {
		return strings.NewReplacer(
			"{{. | trimTrailingWhitespaces}}", fmt.Sprintf("{{hang . 0 %d}}", columns),
			"{{.Short}}", fmt.Sprintf("{{short . %d}}", columns),
			"\n\nFlags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}",
			fmt.Sprintf("{{flagGroups .LocalFlags %d}}", columns),
			".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", columns),
		).Replace(template)
	}
	root.SetHelpTemplate(fit(root.HelpTemplate()))
	root.SetUsageTemplate(fit(root.UsageTemplate()))
}

// hang breaks text between words, so that it fits when it begins after an indent.
func hang(text string, indent, columns int) string {
	if columns == 0 || lipgloss.Width(text) <= columns-indent {
		return text
	}
	const whole = "\u2011" // lipgloss would break flags and ids at their hyphens, too
	text = lipgloss.Wrap(strings.ReplaceAll(text, "-", whole), columns-indent, "")
	return strings.NewReplacer(whole, "-", "\n", "\n"+strings.Repeat(" ", indent)).Replace(text)
}

// serverFlags adds the flags of serve; help has few of them, and --help-all the others too.
func serverFlags(cmd *cobra.Command, more ...string) {
	flags := cmd.Flags()
	config.AddServerFlags(flags, more...)
	flags.BoolFunc("help-all", "help with all settings", func(string) error {
		flags.VisitAll(func(f *pflag.Flag) { delete(f.Annotations, config.Rare) })
		return pflag.ErrHelp
	})
}

// flagGroups is help for flags under the headings of their groups.
func flagGroups(flags *pflag.FlagSet, columns int) string {
	var titles []string
	groups := map[string]*pflag.FlagSet{}
	flags.VisitAll(func(f *pflag.Flag) {
		if _, rare := f.Annotations[config.Rare]; rare {
			return
		}
		title := "Flags"
		if group := f.Annotations[config.Group]; len(group) > 0 {
			title = group[0]
		}
		if groups[title] == nil {
			titles = append(titles, title)
			groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			groups[title].SortFlags = flags.SortFlags
		}
		groups[title].AddFlag(f)
	})
	var text strings.Builder
	for _, title := range titles {
		fmt.Fprintf(&text, "\n\n%s:\n%s", title, strings.TrimRight(groups[title].FlagUsagesWrapped(columns), "\n"))
	}
	return text.String()
}
