package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

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
