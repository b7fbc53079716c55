package config

import (
	"net/url"
	"strings"
)

// Redact returns a URL without its password, for people and logs. What cannot
// be parsed is not shown at all.
func Redact(raw string) string {
	name, _, _ := strings.Cut(raw, ":")
	if strings.EqualFold(name, "sqlite") {
		return raw
	}
	if _, _, plain := hostPort(raw); plain {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		if strings.ContainsAny(name, "@/ ") {
			return "***"
		}
		return name + "://***"
	}
	if u.Scheme == "" && strings.Contains(raw, "@") {
		return "***" // a URL whose scheme was forgotten
	}
	if u.Opaque != "" && strings.Contains(u.Opaque, "@") {
		return name + ":***"
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), "***")
		}
	}
	query := u.Query()
	for key := range query {
		for _, word := range []string{"pass", "secret", "token"} {
			if strings.Contains(strings.ToLower(key), word) {
				query.Set(key, "***")
				u.RawQuery = query.Encode()
			}
		}
	}
	return strings.ReplaceAll(u.String(), "%2A%2A%2A", "***")
}
