package sluice

import (
	"fmt"
	"strconv"
	"strings"
)

// Counter bounds how many live units the claims that name it have together, of one
// buyer or of many. The ledger adds a claim's units in the step that accepts it.
type Counter struct {
	Name string // like "household:Zm9v", 1 to 64 letters, digits, '_', '-' and ':', one ':' at least
	Max  int64  // live units, 1 to MaxUnits
}

// MaxCounters is how many counters a claim may name.
const MaxCounters = 3

// Counters are those that a claim names, as journals and stores have them: NAME=MAX,
// separated by spaces. Nearly always there are none.
type Counters string

// With returns the counters and one more.
func (c Counters) With(more Counter) Counters {
	text := more.Name + "=" + strconv.FormatInt(more.Max, 10)
	if c != "" {
		text = string(c) + " " + text
	}
	return Counters(text)
}

// List returns the counters; of what Validate refuses, those that can be read, no more
// than MaxCounters.
func (c Counters) List() []Counter {
	if c == "" {
		return nil
	}
	list := make([]Counter, 0, MaxCounters)
	for text := range strings.SplitSeq(string(c), " ") {
		name, most, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(most, 10, 64)
		if err == nil && len(list) < MaxCounters {
			list = append(list, Counter{name, n})
		}
	}
	return list
}

// Validate says what is wrong with the counters.
func (c Counters) Validate() error {
	if c == "" {
		return nil
	}
	list, again := c.List(), Counters("")
	for i, counter := range list {
		if !counter.named() || counter.Max < 1 || counter.Max > MaxUnits {
			return fmt.Errorf("counter %q: want a name like household:Zm9v and 1 to %d units", shorten(string(c)),
				int64(MaxUnits))
		}
		for _, other := range list[:i] {
			if other.Name == counter.Name {
				return fmt.Errorf("counter %q is named twice", counter.Name)
			}
		}
		again = again.With(counter)
	}
	if again != c {
		return fmt.Errorf("counters %q: want at most %d, as NAME=MAX with a space between them", shorten(string(c)),
			MaxCounters)
	}
	return nil
}

// named reports whether the name is one.
func (c *Counter) named() bool {
	const others = "0123456789_-:"
	return len(c.Name) <= 64 && strings.Contains(c.Name, ":") && !strings.ContainsFunc(c.Name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(others, r)
	})
}

// Full returns the name of the first counter that has no room for so many units, ""
// without one. Counted are the live units by name.
func (c Counters) Full(counted map[string]int64, units int64) string {
	for _, counter := range c.List() {
		if counted[counter.Name]+units > counter.Max {
			return counter.Name
		}
	}
	return ""
}
