package config

import (
	"fmt"
	"strconv"
	"strings"
)

// hint names the nearest right name, when one is near enough to be meant.
func hint(have string, names []string) string {
	if near := Nearest(have, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Nearest returns the name that a misspelled one was probably meant to be, or
// "".
func Nearest(have string, names []string) string {
	best, least := "", max(2, len(have)/4)+1
	for _, name := range names {
		if d := distance(strings.ToLower(have), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is Levenshtein's: how many letters to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// DurationHint says what keeps a text from being a duration: days, or no unit.
// It is "" when that is anybody's guess.
func DurationHint(have string) string {
	digits, days := strings.CutSuffix(have, "d")
	n, err := strconv.ParseInt(digits, 10, 32)
	switch {
	case err != nil || n <= 0:
		return ""
	case days:
		return fmt.Sprintf("there is no unit d (write %dh)", 24*n)
	}
	return fmt.Sprintf("the unit is missing (write %ds, %dm or %dh)", n, n, n)
}
