package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// The client of the HTTP sides: wrk, with the same script for all of them.

//go:embed wrk.lua
var wrkScript []byte

const (
	wrkThreads     = 1
	wrkConnections = 256

	// poolSecret signs buyers' tokens.
	poolSecret = "a secret that signs the tokens of the buyers of a benchmark"
	// tokenLife is longer than any run.
	tokenLife = 6 * time.Hour
)

// pool is requests of distinct buyers, prepared in files that wrk reads.
type pool struct {
	script, tokens string // files
	size           int    // requests
	secret         string // of the tokens
}

// newPool mints the tokens of a crowd.
func newPool(ctx context.Context, dir string, buyers crowd.Crowd, size int) (*pool, error) {
	p := &pool{
		script: filepath.Join(dir, "wrk.lua"), tokens: filepath.Join(dir, "tokens"), size: size, secret: poolSecret,
	}
	if err := os.WriteFile(p.script, wrkScript, 0o600); err != nil {
		return nil, err
	}
	file, err := os.Create(p.tokens)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	now, line := time.Now(), 0
	for n := range size {
		buyer, key := buyers.Attempt(int64(n))
		token, err := loadgen.Mint([]byte(p.secret), buyer, now, tokenLife)
		if err != nil {
			return nil, err
		}
		length, err := fmt.Fprintf(out, "%s %s\n", token, key)
		if line = cmp.Or(line, length); err == nil && length != line { // the script finds a line by its number
			err = fmt.Errorf("request %d has a line of %d bytes, those before have %d", n, length, line)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
	}
	if err := out.Flush(); err != nil {
		return nil, err
	}
	return p, file.Close()
}

// rush is what wrk reports of one of its runs.
type rush struct {
	Requests     int64 `json:"requests"` // answered
	DurationUS   int64 `json:"duration_us"`
	Not2xx3xx    int64 `json:"not_2xx_3xx"` // of Requests
	SocketErrors int64 `json:"socket_errors"`
	P50US        int64 `json:"p50_us"`
	P99US        int64 `json:"p99_us"`

	atEnd api.AdminSale // of Sluice's, at the end of the run
}

func (r *rush) perSecond() float64 { return float64(r.Requests) / (float64(r.DurationUS) / 1e6) }

// run sends count requests of the pool, from the given one on, over and over.
func (p *pool) run(ctx context.Context, url string, from, count int, long time.Duration) (*rush, error) {
	return runWrk(ctx, p.script, url, long, p.tokens, strconv.Itoa(from), strconv.Itoa(count), strconv.Itoa(wrkThreads))
}

// runWrk runs wrk with a script and its arguments for at least the time given: wrk counts
// in whole seconds.
func runWrk(ctx context.Context, script, url string, long time.Duration, args ...string) (*rush, error) {
	seconds := int((long + time.Second - 1) / time.Second)
	cmd := exec.CommandContext(ctx, "wrk", append([]string{
		"-t", strconv.Itoa(wrkThreads), "-c", strconv.Itoa(wrkConnections), "-d", strconv.Itoa(seconds) + "s",
		"--timeout", "10s", "-s", script, url, "--",
	}, args...)...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("wrk: %w\n%s", err, text)
	}
	return parseWrk(text)
}

// parseWrk reads the line that wrk.lua's done prints.
func parseWrk(text []byte) (*rush, error) {
	_, line, found := bytes.Cut(text, []byte("\nbench: "))
	if !found {
		return nil, fmt.Errorf("wrk said nothing of its run:\n%s", text)
	}
	var r rush
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&r); err != nil {
		return nil, fmt.Errorf("wrk: %w:\n%s", err, text)
	}
	if r.SocketErrors > 0 || r.Requests == 0 || r.DurationUS <= 0 {
		return nil, fmt.Errorf("wrk: %d socket errors, %d answers:\n%s", r.SocketErrors, r.Requests, text)
	}
	return &r, nil
}
