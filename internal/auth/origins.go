package auth

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// CheckOrigins says what is wrong with the first origin that is not exactly as
// browsers send it. An empty list is right: no other site's pages are let in.
func CheckOrigins(origins []string) error {
	for _, origin := range origins {
		if err := checkOrigin(origin); err != nil {
			return fmt.Errorf("origin %q: %w", origin, err)
		}
	}
	return nil
}

func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if strings.Contains(origin, "*") {
		return errors.New("want exact origins, without wildcards")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("want scheme and host, like https://shop.example")
	}
	if plain := strings.ToLower(u.Scheme + "://" + u.Host); origin != plain {
		return fmt.Errorf("want scheme and host alone, in lower case: %s", plain)
	}
	if u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" ||
		strings.HasSuffix(u.Host, ":") {
		return fmt.Errorf("want no port, as browsers send it: %s://%s", u.Scheme, u.Hostname())
	}
	return nil
}
