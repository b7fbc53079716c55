package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/httpapi"
)

// What a setting may be: each of these makes a check of the table (settings.go).

func text(at *string) func(string) error { return given(at, func(string) error { return nil }) }

// given is a text that check judges, unless it is empty.
func given(at *string, check func(value string) error) func(string) error {
	return func(value string) error {
		*at = value
		if value == "" {
			return nil
		}
		return check(value)
	}
}

func oneOf(at *string, words ...string) func(string) error {
	return func(value string) error {
		*at = value
		if slices.Contains(words, value) {
			return nil
		}
		return fmt.Errorf("want %s", strings.Join(words, ", "))
	}
}

// none is how an engine's configuration writes that there shall be none of
// something; 0 means the default there.
const none = -1

func duration(at *time.Duration, least, most time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if hint := DurationHint(value); err != nil && hint != "" {
			return fmt.Errorf("%s; want a duration from %s to %s", hint, least, most)
		}
		if err != nil || d < least || d > most {
			return fmt.Errorf("want a duration from %s to %s, like 250ms", least, most)
		}
		*at = d
		return nil
	}
}

// orNone is a number or a duration that 0 turns off.
func orNone[T int | time.Duration](at *T, check func(string) error) func(string) error {
	return func(value string) error {
		err := check(value)
		*at = cmp.Or(*at, none)
		return err
	}
}

// durationOrOff is a duration, or "off", which is none.
func durationOrOff(at *time.Duration, least, most time.Duration) func(string) error {
	check := duration(at, least, most)
	return func(value string) error {
		if value == "off" {
			*at = none
			return nil
		}
		if err := check(value); err != nil {
			return fmt.Errorf("%w, or off", err)
		}
		return nil
	}
}

func number(at *int, least, most int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		*at = n
		return nil
	}
}

// ratio is a part of a whole, and not none of it.
func ratio(at *float64) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n > 0 && n <= 1) {
			return errors.New("want a number above 0, at most 1, like 0.01")
		}
		*at = n
		return nil
	}
}

// backend checks the form of a backend's URL; the backend itself reads it.
func backend(at *string, schemes ...string) func(string) error {
	return given(at, func(value string) error {
		name, rest, found := strings.Cut(value, ":")
		switch {
		case !found || !slices.Contains(schemes, strings.ToLower(name)):
			return fmt.Errorf("want %s%s", orList(schemes), backendHint(value, schemes))
		case strings.EqualFold(name, "sqlite"):
			if rest == "" || strings.HasPrefix(rest, "//") {
				return errors.New("want a path after sqlite:, like sqlite:/var/lib/sluice/orders.db")
			}
		case !strings.HasPrefix(rest, "//") || len(rest) == 2:
			return fmt.Errorf("want a host after %s://", name)
		}
		return nil
	})
}

// ledger is a backend, or store.
func ledger(at *string, schemes ...string) func(string) error {
	url := backend(at, schemes...)
	return func(value string) error {
		if value == "store" {
			*at = value
			return nil
		}
		return url(value)
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

func listen(at *string) func(string) error {
	return given(at, func(value string) error {
		_, port, err := net.SplitHostPort(value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return errors.New("want HOST:PORT, like 127.0.0.1:8080, or :0 for any free port")
		}
		return nil
	})
}

// defaultAdminListen is where the merchant's API is when the public can reach
// listen.
const defaultAdminListen = "127.0.0.1:8081"

// completeListen finds the addresses that were not given, and whether other
// machines can reach them, also by a proxy on this one. For the commands, a --url
// that was typed beats an admin_url of the file or the environment.
func (c *Config) completeListen() {
	switch host, port, _ := net.SplitHostPort(c.Listen); {
	case c.AdminListen == "" && !IsLoopback(host):
		c.AdminListen = defaultAdminListen
	case c.AdminListen == c.Listen && port != "0": // two ports that the system picks differ
		c.AdminListen = ""
	}
	c.Exposed = len(c.TrustedProxies) > 0
	for _, listen := range []string{c.Listen, c.AdminListen} {
		if host, _, err := net.SplitHostPort(listen); err == nil && !IsLoopback(host) {
			c.Exposed = true
		}
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

func (c *Config) checkNode(value string) error {
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
func checkSecret(at *string) func(string) error {
	return given(at, func(value string) error {
		if strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return errors.New("want printable ASCII characters without spaces")
		}
		return nil
	})
}

// serverURL wants the address of a server, and nothing more.
func serverURL(at *string) func(string) error {
	return given(at, func(value string) error {
		u, err := url.Parse(value)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("want http://host:port or https://host")
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("want no user, query or fragment in it")
		}
		return nil
	})
}

// names is a setting of texts, separated by commas.
func names(at *[]string) func(string) error {
	return func(value string) error {
		*at = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	}
}

// link checks an address that the buyer's pages link to: with all of the
// placeholders that it must have.
func link(at *string, placeholders ...string) func(string) error {
	return given(at, func(value string) error {
		for _, p := range placeholders {
			if !strings.Contains(value, p) {
				return errors.New("want " + p + " in it")
			}
		}
		if strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "//") && !strings.Contains(value, `\`) {
			return nil
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("want an address like https://shop.example/path, or a path like /path")
		}
		return nil
	})
}

// checkOrigins reads origins separated by commas or spaces.
func (c *Config) checkOrigins(value string) error {
	_ = names(&c.CORSOrigins)(value)
	return httpapi.CheckOrigins(c.CORSOrigins)
}

// proxies is a setting of addresses and CIDRs.
func proxies(at *[]netip.Prefix) func(string) error {
	return func(value string) (err error) {
		*at, err = parseProxies(value)
		return err
	}
}

// parseProxies reads addresses and CIDRs, separated by commas.
func parseProxies(list string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range strings.Split(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, bad := netip.ParseAddr(text)
			if bad != nil || address.Zone() != "" {
				return nil, fmt.Errorf("%q: want addresses or CIDRs, like 10.0.0.0/8, 2001:db8::1", text)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		if prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%q: want IPv4 written as IPv4", text)
		}
		if prefix.Masked() != prefix {
			return nil, fmt.Errorf("%q: the address has bits beyond the prefix; want %s", text, prefix.Masked())
		}
		all = append(all, prefix)
	}
	return all, nil
}
