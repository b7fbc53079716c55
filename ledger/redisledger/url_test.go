package redisledger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseURL(t *testing.T) {
	type parsed struct {
		Hosts          []string
		User, Password string
		DB             int
		Master         string
		TLS            string // server name, or "yes"
		Single         bool
	}
	for url, want := range map[string]parsed{
		"redis://localhost":       {Hosts: []string{"localhost:6379"}, Single: true},
		"redis://10.0.0.1:7000/3": {Hosts: []string{"10.0.0.1:7000"}, DB: 3, Single: true},
		"redis://10.0.0.1:7000/":  {Hosts: []string{"10.0.0.1:7000"}, Single: true},
		"redis://[::1]:7000":      {Hosts: []string{"[::1]:7000"}, Single: true},
		"redis://[::1]":           {Hosts: []string{"[::1]:6379"}, Single: true},
		"redis://:p%40ss%2F@h:1":  {Hosts: []string{"h:1"}, Password: "p@ss/", Single: true},
		"redis://u:p@ss:w@h:1":    {Hosts: []string{"h:1"}, User: "u", Password: "p@ss:w", Single: true},
		"rediss://u:p@redis.example:6380": {
			Hosts: []string{"redis.example:6380"}, User: "u", Password: "p",
			TLS: "redis.example", Single: true,
		},
		"redis+sentinel://a:1,b,c:3/main":      {Hosts: []string{"a:1", "b:26379", "c:3"}, Master: "main"},
		"redis+sentinel://:p@a:1,b:2/my%2Fm/4": {Hosts: []string{"a:1", "b:2"}, Password: "p", Master: "my/m", DB: 4},
		"redis+cluster://a:1,b:2":              {Hosts: []string{"a:1", "b:2"}},
		"rediss+cluster://u:p@a:1,b:2,[fe80::]": {
			Hosts: []string{"a:1", "b:2", "[fe80::]:6379"}, User: "u", Password: "p",
			TLS: "yes",
		},
		"rediss+sentinel://a/main": {Hosts: []string{"a:26379"}, Master: "main", TLS: "yes"},
	} {
		option, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := parsed{
			Hosts: option.InitAddress, User: option.Username, Password: option.Password, DB: option.SelectDB,
			Master: option.Sentinel.MasterSet, Single: option.ForceSingleClient,
		}
		if option.TLSConfig != nil {
			got.TLS = option.TLSConfig.ServerName
			if got.TLS == "" {
				got.TLS = "yes"
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", url, diff)
		}
	}
}

// A wrong URL is one clear sentence, and no part of it is repeated: any part
// may be the password when a character is missing.
func TestParseURLRefuses(t *testing.T) {
	const secret = "hunter2"
	for url, want := range map[string]string{
		"":                                    "want redis://HOST:PORT",
		"localhost:6379":                      "want redis://HOST:PORT",
		"http://:hunter2@h":                   "unknown scheme",
		"hunter2@redis://h":                   "unknown scheme",
		"redis+ring://h":                      "unknown scheme",
		"redissentinel://h":                   "unknown scheme",
		"redis://":                            "HOST:PORT",
		"redis://:hunter2":                    "HOST:PORT",
		"redis://h:0":                         "HOST:PORT",
		"redis://h:66000":                     "HOST:PORT",
		"redis://:hunter2@h:x":                "HOST:PORT",
		"redis://h:1,i:2":                     "several hosts",
		"redis://h/hunter2":                   "number for the database",
		"redis://h/-1":                        "number for the database",
		"redis://:hunter2@h?x=1":              "'?'",
		"redis://:hunt%er2@h":                 "%25",
		"redis://hunter2@h":                   "USER:PASSWORD",
		"redis+cluster://:hunter2@h/1":        "no databases",
		"redis+sentinel://:hunter2@h:1":       "name of the master",
		"redis+sentinel://:hunter2@h:1/%zz":   "name of the master",
		"redis+sentinel://:hunter2@h:1/m/one": "number for the database",
		"redis+sentinel://a:1,,b:2/main":      "host 2",
	} {
		option, err := parseURL(url)
		switch {
		case err == nil:
			t.Errorf("%q: no error, %v", url, option.InitAddress)
		case !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) ||
			strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: error %q, want one line that says %q", url, err, want)
		}
	}
}
