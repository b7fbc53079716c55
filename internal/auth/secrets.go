package auth

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Secrets holds the settings that guard something.
type Secrets struct {
	AdminKey, BuyerSecret, BuyerSecretPrevious, TicketSecret, TicketSecretPrevious, WebhookKey string
}

// Short is a secret that can be guessed.
type Short struct {
	Setting, Harm string
	Least         int // random bytes that it should have
}

// Short returns the secrets that can be guessed.
func (s Secrets) Short() (short []Short) {
	for _, of := range []struct {
		value string
		Short
	}{
		{s.AdminKey, Short{"admin_key", "controls every sale", minAdminKey}},
		{s.BuyerSecret, Short{"buyer_secret", "can act as any buyer", minSecret}},
		{s.BuyerSecretPrevious, Short{"buyer_secret_previous", "can act as any buyer", minSecret}},
		{s.TicketSecret, Short{"ticket_secret", "can forge tickets", minSecret}},
		{s.WebhookKey, Short{"webhook_key", "can decrypt webhook secrets", minSecret}},
		{s.TicketSecretPrevious, Short{"ticket_secret_previous", "can forge tickets", minSecret}},
	} {
		if of.value != "" && len(of.value) < of.Least {
			of.Harm = "anyone who guesses it " + of.Harm
			short = append(short, of.Short)
		}
	}
	return short
}

// Redact returns a URL without its password, for people and logs. A URL that
// cannot be parsed is not shown at all.
func Redact(raw string) string {
	name, _, _ := strings.Cut(raw, ":")
	if strings.EqualFold(name, "sqlite") {
		return raw
	}
	if _, _, plain := HostPort(raw); plain {
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

// HostPort reads an address without a scheme. Where there is a user or a path,
// it is none.
func HostPort(value string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(value)
	if err != nil || host == "" || strings.ContainsAny(host, "@/?#% ") {
		return "", "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, port, err == nil
}
