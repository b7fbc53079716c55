package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

func TestIntervalOfTheMedian(t *testing.T) {
	// Of 8 pairs only the whole range is certain enough, of 12 all but the ends are.
	ratios := []float64{1.2, 0.9, 1.1, 1.3, 1.0, 1.4, 0.8, 1.5}
	if middle, from, to, err := interval(ratios); err != nil || math.Abs(middle-1.15) > 1e-9 || from != 0.8 || to != 1.5 {
		t.Error(middle, from, to, err)
	}
	ratios = append(ratios, 0.1, 9, 1.15, 1.15)
	if middle, from, to, err := interval(ratios); err != nil || math.Abs(middle-1.15) > 1e-9 || from != 0.8 || to != 1.5 {
		t.Error(middle, from, to, err)
	}
	many := make([]float64, 20)
	for i := range many {
		many[i] = float64(20 - i)
	}
	if middle, from, to, err := interval(many); err != nil || middle != 10.5 || from != 4 || to != 17 {
		t.Error(middle, from, to, err) // fewer than 4 of 20 coins: 0.26%; fewer than 5: 1.2%
	}
	if _, _, _, err := interval(ratios[:7]); err == nil {
		t.Error("7 pairs are not enough")
	}
	for _, c := range []struct {
		of       string
		from, to float64
		want     string
	}{
		{"per_s", 0.99, 1.2, "no difference"},
		{"per_s", 1.01, 1.2, "faster"},
		{"per_s", 0.8, 0.99, "slower"},
		{"redis_cpu_us", 1.01, 1.2, "slower"},
		{"p99_ms_at_1000", 0.8, 0.9, "faster"},
		{"cpu_us_at_1000", 0.8, 0.9, "faster"},
		{"disk_B_per_order", 0.8, 0.9, "less"},
	} {
		if got := judgement(c.of, c.from, c.to); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Programs of other versions may lack groups and figures.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	program := func(name, side string, value int) string {
		path := filepath.Join(dir, name)
		script := fmt.Sprintf(`#!/bin/sh
case "$*" in *"--only other"*) echo "bench: unknown group" >&2; exit 1;; esac
n=$(cat %[1]s.n 2>/dev/null || echo 0); echo $((n + 1)) > %[1]s.n; echo %[2]s >> %[4]s
echo "{\"sides\":[{\"name\":\"both\",\"median\":$((%[3]d + n)),\"also\":{\"%[2]s\":1,\"cpu_us\":$((n %% 3 + 1))}}]}"
`, path, side, value, filepath.Join(dir, "order"))
		must.Succeed(t, os.WriteFile(path, []byte(script), 0o700))
		return path
	}
	a, b := program("a", "only_a", 1000), program("b", "only_b", 1100)
	var out bytes.Buffer
	args := []string{"--pairs", "8", "--only", "group,other", a, b}
	must.Succeed(t, compare(t.Context(), args, &out, io.Discard))
	for _, want := range []string{
		"\nboth  cpu us      2      2  1.000  1.000  1.000  no difference\n",
		"\nboth  per s   1,004  1,104  1.100  1.099  1.100  faster\n",
		"only A has both, only_a", "only B has both, only_b", "A cannot run other: exit status 1: bench: unknown group",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if order, err := os.ReadFile(filepath.Join(dir, "order")); err != nil ||
		!strings.HasPrefix(string(order), "only_a\nonly_b\nonly_b\nonly_a\nonly_a\n") {
		t.Errorf("they ran in the order %q: %v", order, err)
	}
	if err := compare(t.Context(), []string{"--pairs", "7", a, b}, io.Discard, io.Discard); err == nil {
		t.Error("7 pairs were taken")
	}
}
