package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// checkOrigins reads origins separated by commas or spaces. The HTTP API wants
// them as exactly as browsers send them.
func checkOrigins(c *Config, value string) error {
	c.CORSOrigins = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	for _, origin := range c.CORSOrigins {
		u, err := url.Parse(origin)
		switch {
		case strings.Contains(origin, "*"):
			return errors.New("want exact origins, without wildcards")
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return fmt.Errorf("%q: want scheme and host, like https://shop.example", origin)
		case origin != strings.ToLower(u.Scheme+"://"+u.Host):
			return fmt.Errorf("%q: want scheme and host alone, in lower case: %s", origin, strings.ToLower(u.Scheme+"://"+u.Host))
		case u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" || strings.HasSuffix(u.Host, ":"):
			return fmt.Errorf("%q: want no port, as browsers send it: %s://%s", origin, u.Scheme, u.Hostname())
		}
	}
	return nil
}
