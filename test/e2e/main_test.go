// Package e2e tests Sluice as its users meet it: the built binary, real
// processes, HTTP, real Redis and PostgreSQL, SIGKILL.
//
// The scripts in scripts/ are what a user types. The Go tests let crowds rush
// sales while servers and backends die, and hold what the crowd was promised
// against what was stored.
package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the path of the sluice that all tests run.
var binary string

func TestMain(m *testing.M) {
	// The scripts find these on their PATH: the test binary, under other names.
	testscript.Main(built{m}, map[string]func(){"curl": curl})
}

// built builds the binary before the tests run.
type built struct{ m *testing.M }

func (b built) Run() int {
	folder, err := os.MkdirTemp("", "sluice-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	binary = filepath.Join(folder, "sluice")
	build := exec.Command("go", "build", "-o", binary, "./cmd/sluice")
	build.Dir = filepath.Join("..", "..") // with the versions of the product's go.mod
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build sluice: %v\n%s", err, out)
		return 1
	}
	code := b.m.Run()
	if all := flag.Lookup("test.run").Value.String() == "" && os.Getenv("SLUICE_TEST_REQUIRE") != ""; all && code == 0 {
		for _, one := range untaken(filepath.Join("..", "..")) {
			fmt.Fprintln(os.Stderr, "no test runs this snippet of", one)
			code = 1
		}
	}
	return code
}

// size is how big a round is that a long campaign has, too: big in the campaign.
func size(long, short int) int {
	if os.Getenv("SLUICE_TEST_SOAK") == "" {
		return short
	}
	return long
}

// seeded returns a source that repeats its run: the seed is the default, or
// that of SLUICE_TEST_SEED.
func seeded(t testing.TB, preset uint64) *rand.Rand {
	t.Helper()
	if text := os.Getenv("SLUICE_TEST_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLUICE_TEST_SEED: %v", err)
		}
		preset = given
	}
	t.Logf("SLUICE_TEST_SEED=%d repeats this run", preset)
	return rand.New(rand.NewPCG(preset, 0xE2E))
}

// soak returns how long a campaign of `make soak` lasts, and skips without it.
func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SLUICE_TEST_SOAK")
	if text == "" {
		t.Skip("a long campaign: set SLUICE_TEST_SOAK to its duration")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SLUICE_TEST_SOAK: %v", err)
	}
	return d
}

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

// await waits until a condition holds. It says what it waited for. It asks less
// often the longer it takes: asking costs the servers that are awaited, too.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(patience); !holds(); pause = min(pause*5/4, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
		time.Sleep(pause)
	}
}
