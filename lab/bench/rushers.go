package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loadgen"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// Buyers who send their claims at fixed moments, whether or not the server keeps up. A
// claim's time counts from when it should have been sent. They are a process of their
// own: this program, started again with rushCommand.

const rushCommand = "rush"

// rushers says who they are. It is the process' only argument.
type rushers struct {
	URL         string    `json:"url"`
	Seed        uint64    `json:"seed"`
	From        int       `json:"from"` // the first of the crowd's buyers
	Buyers      int       `json:"buyers"`
	Connections int       `json:"connections"`
	Rate        float64   `json:"rate"` // claims a second
	Start       time.Time `json:"start"`
}

// rushed is what happened.
type rushed struct {
	Latency  loadgen.Latency  `json:"latency"`
	Accepted int              `json:"accepted"`
	Errors   map[string]int64 `json:"errors,omitempty"` // tries without a decision
}

// runRushers is the other process.
func runRushers(ctx context.Context, args []string, stdout io.Writer) error {
	var c rushers
	if len(args) != 1 {
		return errors.New("rush: this command is for the benchmark itself")
	}
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		return fmt.Errorf("rush: %w", err)
	}
	buyers, now := crowd.New(c.Seed), time.Now()
	tokens := make([]string, c.Buyers)
	var minting errgroup.Group
	for half := range 2 {
		minting.Go(func() (err error) {
			for i := half; i < len(tokens) && err == nil; i += 2 {
				buyer, _ := buyers.Attempt(int64(c.From + i))
				tokens[i], err = loadgen.Mint([]byte(poolSecret), buyer, now, tokenLife)
			}
			return err
		})
	}
	if err := minting.Wait(); err != nil {
		return err
	}
	rush, err := loadgen.New(loadgen.Options{
		URL: c.URL, Sale: shopSale, Tokens: tokens, Connections: c.Connections, Rate: c.Rate, Start: c.Start,
		Seed: c.Seed + uint64(c.From),
	})
	if err != nil {
		return err
	}
	out, err := rush.Rush(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(rushed{
		Latency: out.LatencyMS, Accepted: int(out.Decisions[sluice.Accepted]), Errors: out.ErrorReasons,
	})
}

// rush runs them.
func (c *rushers) rush(ctx context.Context) (*rushed, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, rushCommand, string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the buyers' process: %w", err)
	}
	var r rushed
	return &r, json.Unmarshal(out, &r)
}

func everySecond(rate float64) string { return strconv.FormatFloat(rate, 'f', 0, 64) }
