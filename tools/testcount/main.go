// Testcount prints one line, "N passed, N failed, N skipped", for the test
// events in the files it is given (gotestsum --jsonfile-timing-events). A test
// that several files tell of, because it ran under several flags, counts once,
// by its worst outcome. A package that failed outside its tests (it did not
// build, or crashed) counts as one failure. The verdict is
// left to go test's exit code.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

type event struct {
	Action  string
	Package string
	Test    string // empty: the package itself
}

type outcome int

const (
	skipped outcome = iota + 1
	passed
	failed
)

var outcomes = map[string]outcome{"skip": skipped, "pass": passed, "fail": failed}

func main() {
	counts, err := count(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", counts[passed], counts[failed], counts[skipped])
}

func count(files []string) (map[outcome]int, error) {
	tests := map[event]outcome{}     // the event without its action
	packages := map[string]outcome{} // failed packages, passed once a failed test explains it
	for _, file := range files {
		if err := read(file, tests, packages); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	counts := map[outcome]int{}
	for test, result := range tests {
		counts[result]++
		if result == failed {
			packages[test.Package] = passed
		}
	}
	for _, result := range packages {
		if result == failed {
			counts[failed]++
		}
	}
	return counts, nil
}

func read(file string, tests map[event]outcome, packages map[string]outcome) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for dec := json.NewDecoder(f); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		result := outcomes[e.Action]
		if e.Test == "" {
			packages[e.Package] = max(packages[e.Package], result)
			continue
		}
		key := event{Package: e.Package, Test: e.Test}
		tests[key] = max(tests[key], result)
	}
}
