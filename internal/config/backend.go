package config

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

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
	if host, port, ok := hostPort(value); ok {
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

// hostPort reads an address without a scheme. Where there is a user or a path,
// it is none.
func hostPort(value string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(value)
	if err != nil || host == "" || strings.ContainsAny(host, "@/?#% ") {
		return "", "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, port, err == nil
}
