package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// What a setting may be: each of these makes a check of the table (settings.go).

func text(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*at(c) = value
		return nil
	}
}

func oneOf(at func(*Config) *string, words ...string) func(*Config, string) error {
	return func(c *Config, value string) error {
		for _, w := range words {
			if value == w {
				*at(c) = value
				return nil
			}
		}
		return fmt.Errorf("want %s", strings.Join(words, ", "))
	}
}

func duration(at func(*Config) *time.Duration, least, most time.Duration) func(*Config, string) error {
	return func(c *Config, value string) error {
		d, err := time.ParseDuration(value)
		if hint := DurationHint(value); err != nil && hint != "" {
			return fmt.Errorf("%s; want a duration from %s to %s", hint, least, most)
		}
		if err != nil || d < least || d > most {
			return fmt.Errorf("want a duration from %s to %s, like 250ms", least, most)
		}
		*at(c) = d
		return nil
	}
}

// durationOrOff is a duration, or "off", which is 0.
func durationOrOff(at func(*Config) *time.Duration, least, most time.Duration) func(*Config, string) error {
	check := duration(at, least, most)
	return func(c *Config, value string) error {
		if value == "off" {
			*at(c) = 0
			return nil
		}
		if err := check(c, value); err != nil {
			return fmt.Errorf("%w, or off", err)
		}
		return nil
	}
}

func number(at func(*Config) *int, least, most int) func(*Config, string) error {
	return func(c *Config, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		*at(c) = n
		return nil
	}
}

// backend checks the form of a backend's URL; the backend itself reads it.
func backend(at func(*Config) *string, schemes ...string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*at(c) = value
		if value == "" {
			return nil
		}
		name, rest, found := strings.Cut(value, ":")
		known := false
		for _, s := range schemes {
			known = known || found && strings.EqualFold(name, s)
		}
		switch {
		case !known:
			return fmt.Errorf("want %s%s", orList(schemes), backendHint(value, schemes))
		case strings.EqualFold(name, "sqlite"):
			if rest == "" || strings.HasPrefix(rest, "//") {
				return errors.New("want a path after sqlite:, like sqlite:/var/lib/sluice/orders.db")
			}
		case !strings.HasPrefix(rest, "//") || len(rest) == 2:
			return fmt.Errorf("want a host after %s://", name)
		}
		return nil
	}
}

func orList(schemes []string) string {
	forms := make([]string, len(schemes))
	for i, s := range schemes {
		forms[i] = s + "://..."
		if s == "sqlite" {
			forms[i] = "sqlite:PATH"
		}
	}
	return strings.Join(forms[:len(forms)-1], ", ") + " or " + forms[len(forms)-1]
}

func listen(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*at(c) = value
		if value == "" {
			return nil
		}
		_, port, err := net.SplitHostPort(value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return errors.New("want HOST:PORT, like 127.0.0.1:8080, or :0 for any free port")
		}
		return nil
	}
}

// defaultAdminListen is where the merchant's API is when the public can reach
// listen.
const defaultAdminListen = "127.0.0.1:8081"

// completeListen finds the addresses that were not given. For the commands, a
// --url that was typed beats an admin_url of the file or the environment.
func (c *Config) completeListen() {
	switch host, port, _ := net.SplitHostPort(c.Listen); {
	case c.AdminListen == "" && !IsLoopback(host):
		c.AdminListen = defaultAdminListen
	case c.AdminListen == c.Listen && port != "0": // two ports that the system picks differ
		c.AdminListen = ""
	}
	typed := func(key string) bool { return strings.HasPrefix(c.Origin(key), "--") }
	if c.AdminURL == "" || typed("url") && !typed("admin_url") {
		c.AdminURL = c.URL
	}
}

// IsLoopback reports whether a host is this machine and no other can reach it.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func checkNode(c *Config, value string) error {
	c.Node = value
	if len(value) > 64 {
		return errors.New("want at most 64 characters")
	}
	for _, r := range value {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)) {
			return errors.New("want letters, digits, '-', '_' and '.'")
		}
	}
	return nil
}

// checkSecret wants what fits into a header as it is. It never repeats the value.
func checkSecret(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*at(c) = value
		for i := range len(value) {
			if value[i] <= ' ' || value[i] > '~' {
				return errors.New("want printable ASCII characters without spaces")
			}
		}
		return nil
	}
}

// serverURL wants the address of a server, and nothing more.
func serverURL(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*at(c) = value
		if value == "" {
			return nil
		}
		u, err := url.Parse(value)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("want http://host:port or https://host")
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("want no user, query or fragment in it")
		}
		return nil
	}
}
