// Package machine says where figures come from: the machine, the versions of what is
// measured, and the processor time that processes use.
package machine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/servertest"
)

// Machine is where the figures come from.
type Machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryGB   float64 `json:"memory_gb"`
	OS         string  `json:"os"`
	Filesystem string  `json:"filesystem"`
	// FsyncMS is the median time of writing and syncing 4 KB, in milliseconds:
	// what "durable" costs here.
	FsyncMS float64 `json:"fsync_ms"`
	// Load is the load average of the last minute when the run began: above 0,
	// something else was at work.
	Load float64 `json:"load"`
}

// Versions of everything that is measured.
type Versions struct {
	Go    string `json:"go"`
	Redis string `json:"redis,omitempty"`
	Wrk   string `json:"wrk,omitempty"`
	// Postgres is not on the PATH everywhere.
	Postgres string `json:"postgres,omitempty"`
	Commit   string `json:"commit,omitempty"` // with "-dirty" when files differ from it
}

// Describe describes this machine, with the disk that holds the folder.
func Describe(ctx context.Context, dir string) Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), MemoryGB: MemoryGB(), OS: output(ctx, "uname", "-sr")}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		m.CPU = model
	}
	m.Filesystem = filesystem(ctx, dir)
	m.FsyncMS, _, _ = Fsync(dir, 100)
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(load), " ")
		m.Load, _ = strconv.ParseFloat(first, 64)
	}
	return m
}

// MemoryGB is the memory of the machine; 0 where /proc does not say.
func MemoryGB() float64 {
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 64)
	return kb / (1 << 20)
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// DescribeVersions asks the programs.
func DescribeVersions(ctx context.Context) Versions {
	programs, _ := servertest.PostgresPrograms()
	return Versions{
		Go:       runtime.Version(),
		Redis:    versionNumber.FindString(output(ctx, "redis-server", "--version")),
		Wrk:      versionNumber.FindString(output(ctx, "wrk", "-v")),
		Postgres: versionNumber.FindString(output(ctx, filepath.Join(programs, "postgres"), "--version")),
		Commit:   output(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
	}
}

// filesystem is the type of the file system that holds a folder.
func filesystem(ctx context.Context, dir string) string {
	text, _ := exec.CommandContext(ctx, "df", "--output=fstype", dir).Output()
	_, kind, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(kind)
}

// output is the first line that a program prints; empty if it cannot be run.
// Its exit code does not matter: wrk -v has 1.
func output(ctx context.Context, program string, args ...string) string {
	text, _ := exec.CommandContext(ctx, program, args...).Output()
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// field returns the first value of a name in a file of "name : value" lines.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Fsync writes 4 KB with an fsync, n times, and returns the milliseconds that the median
// and the slowest hundredth of them take.
func Fsync(dir string, n int) (p50, p99 float64, err error) {
	file, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, 4096)
	return Repeat(n, func() error {
		if _, err := file.Write(page); err != nil {
			return err
		}
		return file.Sync()
	})
}

// Repeat does something n times, and returns the milliseconds that the median and the
// slowest hundredth of them take.
func Repeat(n int, do func() error) (p50, p99 float64, err error) {
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if err := do(); err != nil {
			return 0, 0, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return ms(took[n/2]), ms(took[n*99/100]), nil
}
