package config

import (
	"errors"
	"net/url"
	"strings"
)

// link checks an address that the buyer's pages link to: with all of the
// placeholders that it must have.
func link(at func(*Config) *string, placeholders ...string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*at(c) = value
		if value == "" {
			return nil
		}
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
	}
}
