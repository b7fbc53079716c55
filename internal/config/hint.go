package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/internal/auth"
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

// otherNames are schemes that people type for a backend that has another one.
var otherNames = map[string]string{
	"mariadb": "mysql", "pg": "postgres", "pgsql": "postgres", "psql": "postgres", "valkey": "redis", "valkeys": "rediss",
	"sqlite3":        "sqlite",
	"redis-sentinel": "redis+sentinel", "redis-cluster": "redis+cluster", "sentinel": "redis+sentinel",
}

// backendHint names the backend that was probably meant, when one is near
// enough. It repeats nothing that may be a password.
func backendHint(value string, schemes []string) string {
	mean := func(text string) string { return "; did you mean " + text + "?" }
	if host, port, ok := auth.HostPort(value); ok {
		value = net.JoinHostPort(host, port)
		switch {
		case slices.Contains(schemes, "mysql") && port == "3306":
			return mean("mysql://" + value + "/DATABASE")
		case slices.Contains(schemes, "postgres") && port == "5432":
			return mean("postgres://" + value + "/DATABASE")
		case slices.Contains(schemes, "redis"):
			return mean("redis://" + value)
		}
		return ""
	}
	name, _, found := strings.Cut(value, ":")
	if !found {
		if ext := filepath.Ext(value); slices.Contains(schemes, "sqlite") && (ext == ".db" || ext == ".sqlite") &&
			!strings.Contains(value, "@") {
			return mean("sqlite:" + value)
		}
		return ""
	}
	near := otherNames[strings.ToLower(name)]
	if !slices.Contains(schemes, near) {
		near = Nearest(name, schemes)
	}
	switch near {
	case "":
		return ""
	case "sqlite":
		return mean("sqlite:PATH")
	}
	return mean(near + "://...")
}
