// Command sluice is Sluice's one binary: the server, the demo, and what an
// operator types. `sluice help` lists the commands.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/config"
	_ "github.com/sluicehq/sluice/ledger/redisledger" // the drivers of the URLs that sluice takes
	_ "github.com/sluicehq/sluice/store/mysqlstore"
	_ "github.com/sluicehq/sluice/store/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// Exit codes; scripts depend on them.
const (
	exitOK       = 0
	exitUsage    = 1 // usage or configuration
	exitFailed   = 2 // at run time
	exitViolated = 3 // the audit found a violation
	exitMissed   = 4 // a goal given to load was missed
)

// exitError carries an exit code. Without an error, everything is said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{exitUsage, err} }

// run is the program: it reads and writes only what it is given, and returns
// the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) (code int) {
	defer func() {
		// A bug is reported in one sentence, without a stack trace.
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "sluice: unexpected error, please report it: %v\n", p)
			code = exitFailed
		}
	}()
	a := &app{
		stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, columns: columns(stdout), started: time.Now(),
	}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, a.unknown)
	if err == nil {
		return exitOK
	}
	code = exitOf(err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	if text := err.Error(); text != "" {
		if unreached(err) && cmd.Flags().Lookup("url") != nil {
			text += "; is it another address? give --url or SLUICE_URL"
		}
		a.printFailure(failure{Error: text, Code: client.CodeOf(err), ExitCode: code}, a.json || saysJSON(args))
	}
	return code
}

// failure is what a command that fails prints on standard error with --json.
type failure struct {
	Error    string `json:"error"`          // what is wrong, for people
	Code     string `json:"code,omitempty"` // the server's, if it has refused
	ExitCode int    `json:"exit_code"`
}

func (a *app) printFailure(f failure, asJSON bool) {
	lines := strings.Split(strings.TrimRight(f.Error, "\n"), "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	if f.Error = strings.Join(lines, "\n"); asJSON {
		_ = (&app{stdout: a.stderr}).printJSON(f)
		return
	}
	for _, line := range lines {
		fmt.Fprintln(a.stderr, "sluice: "+line)
	}
}

// saysJSON finds --json behind a flag that could not be read.
func saysJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

// unreached reports whether a server was called that could not be reached.
func unreached(err error) bool {
	var call *client.NetworkError
	var op *net.OpError
	return errors.As(err, &call) && errors.As(call, &op) && op.Op == "dial"
}

// exitOf is the exit code of an error of a whole command line: what is wrong before the command
// runs was typed, also where cobra has found it (strict).
func exitOf(err error) int {
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	return exitUsage
}

// exitCode is the exit code of a command's error. A bad request, as a server calls it, was
// typed here.
func exitCode(err error) int {
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case client.CodeOf(err) == api.CodeBadRequest:
		return exitUsage
	}
	return exitFailed
}

// app is one run of the program.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	columns        int       // of the terminal that stdout is; 0: stdout is none
	started        time.Time // and the zone of the times on a terminal

	json       bool   // --json
	configFile string // --config
	unknown    error  // help was asked for about a command that does not exist
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Sell a scarce thing to a crowd, and prove that the sale was correct",
		Long: "Sluice answers every buyer at once, never sells a unit twice, never loses an " +
			"order it promised, and proves it afterwards.\n\n" +
			"Start with:  sluice demo",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.PersistentFlags().StringVar(&a.configFile, "config", "", "read settings from `PATH` (YAML); also SLUICE_CONFIG")
	root.SetFlagErrorFunc(flagError)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	under := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, cmd := range commands {
			cmd.GroupID = title
			root.AddCommand(cmd)
		}
	}
	under("Try it", a.demoCommand(), a.loadCommand())
	under("Sell", a.saleCommand(), a.topCommand(), a.orderCommand(), a.buyerCommand(), a.tokenCommand())
	under("Connect a shop", a.eventsCommand(), a.webhookCommand())
	under("Run servers", a.serveCommand(), a.configCommand(), a.backupCommand(), a.adminCommand())
	under("Prove and repair", a.auditCommand(), a.reconcileCommand(), a.recoverCommand(), a.deadLetterCommand())
	root.AddCommand(a.versionCommand())
	group(root)
	version := root.Flags().Bool("version", false, "print the version")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return a.printVersion()
		}
		return help(cmd, args)
	}
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		group(completion)
	}
	strict(root)
	exemplify(root)
	fitHelp(root, cmp.Or(a.columns, usualColumns))
	a.complete(root)
	a.checkHelp(root)
	return root
}

// group makes a command that only has subcommands say so when it is given
// another word; cobra would print its help and call that success.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		text := fmt.Sprintf("%sunknown command %q", at(cmd), args[0])
		if near := config.Nearest(args[0], names); near != "" {
			return usage(fmt.Errorf("%s; did you mean %s?", text, near))
		}
		return usage(fmt.Errorf("%s; want %s", text, strings.Join(names, ", ")))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// checkHelp has help about a command that does not exist refused like the command: cobra would print the help of the
// one above, and call that success.
func (a *app) checkHelp(root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			a.unknown = cmd.Args(cmd, words)
			return
		}
		show(cmd, args)
	})
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			if cmd, words, err := root.Find(args); err == nil && cmd.HasSubCommands() {
				return cmd.Args(cmd, words)
			}
			return nil
		}
	}
}

// strict makes wrong arguments an error of usage, everywhere, and tells them from what fails when
// a command runs.
func strict(cmd *cobra.Command) {
	if do := cmd.RunE; do != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := do(cmd, args)
			if err != nil {
				err = &exitError{exitCode(err), err}
			}
			return err
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var said *exitError
			if err == nil || errors.As(err, &said) {
				return err
			}
			return usage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// at is how a sentence about a command begins, "sale show: "; that it is
// sluice's is said of every error.
func at(cmd *cobra.Command) string {
	_, name, below := strings.Cut(cmd.CommandPath(), " ")
	if !below {
		return ""
	}
	return name + ": "
}

// flagError names the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) { // of --help-all
		return pflag.ErrHelp
	}
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usage(flagValueFault(value))
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := config.Nearest(name, names); near != "" {
			return usage(fmt.Errorf("%s; did you mean --%s?", text, near))
		}
	}
	return usage(fmt.Errorf("%s; see %s --help", text, cmd.CommandPath()))
}

// with is a command that reads its settings first.
func (a *app) with(do func(*cobra.Command, *config.Config, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := config.Load(config.Source{File: a.file(), Environ: a.environ, Flags: cmd.Flags()})
		if err != nil {
			return usage(err)
		}
		return do(cmd, c, args)
	}
}

// checkEnvironment finds misspelt variables for commands without settings.
func (a *app) checkEnvironment() error {
	if _, err := config.Load(config.Source{Environ: a.environ}); err != nil {
		return usage(err)
	}
	return nil
}

// file is the settings' file, if there is one.
func (a *app) file() string {
	if a.configFile != "" {
		return a.configFile
	}
	for _, entry := range a.environ {
		if path, ok := strings.CutPrefix(entry, config.ConfigVariable+"="); ok {
			return path
		}
	}
	return ""
}

// version is the release; the build of a release sets it with -ldflags.
var version = "dev"

// versionInfo is what `sluice version --json` prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // empty when the build does not know
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionInfo {
	info := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if v := build.Main.Version; version == "dev" && v != "" && v != "(devel)" {
		info.Version = v
	}
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" {
			info.Commit = s.Value
		}
	}
	return info
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactly(),
		RunE: func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

// printVersion is also what `sluice --version` does.
func (a *app) printVersion() error {
	if err := a.checkEnvironment(); err != nil {
		return err
	}
	info := buildVersion()
	return a.printRecord(info, [][2]string{
		{"sluice", info.Version}, {"go", info.Go + " " + info.Platform}, {"commit", info.Commit},
	})
}
