package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func prefixesOf(list string) (all []netip.Prefix) {
	for _, text := range strings.Fields(list) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestClientAddress(t *testing.T) {
	const trusted = "10.0.0.0/8 2001:db8:ffff::/48 192.0.2.1/32"
	type header map[string][]string
	xff := func(lines ...string) header { return header{"X-Forwarded-For": lines} }
	fwd := func(lines ...string) header { return header{"Forwarded": lines} }
	for _, c := range []struct {
		name    string
		trusted string
		which   string
		remote  string
		header  header
		want    string // empty: none
	}{
		{"no proxy", "", "", "203.0.113.9:4711", nil, "203.0.113.9"},
		{"IPv6", "", "", "[2001:db8::1]:4711", nil, "2001:db8::1"},
		{"with a zone", "", "", "[fe80::1%eth0]:4711", nil, "fe80::1"},
		{"IPv4 in IPv6", "", "", "[::ffff:203.0.113.9]:4711", nil, "203.0.113.9"},
		{"no address", trusted, "", "@", xff("203.0.113.9"), ""},
		{"no proxy is trusted", "", "", "10.0.0.1:1", xff("203.0.113.9"), "10.0.0.1"},
		{"a client who claims to be a proxy", trusted, "", "203.0.113.9:1", xff("198.51.100.1"), "203.0.113.9"},

		{"one proxy", trusted, "", "10.0.0.1:1", xff("203.0.113.9"), "203.0.113.9"},
		{"in IPv6", trusted, "", "[2001:db8:ffff::7]:1", xff("2001:db8::1"), "2001:db8::1"},
		{"by its address", trusted, "", "192.0.2.1:1", xff("203.0.113.9"), "203.0.113.9"},
		{"as IPv4 in IPv6", trusted, "", "[::ffff:10.0.0.1]:1", xff("::ffff:203.0.113.9"), "203.0.113.9"},
		{"two proxies", trusted, "", "10.0.0.1:1", xff("203.0.113.9, 10.2.2.2"), "203.0.113.9"},
		{"two proxies, a line each", trusted, "", "10.0.0.1:1", xff("203.0.113.9", "10.2.2.2"), "203.0.113.9"},
		{"with ports", trusted, "", "10.0.0.1:1", xff("203.0.113.9:4711"), "203.0.113.9"},
		{"IPv6 with a port", trusted, "", "10.0.0.1:1", xff("[2001:db8::1]:4711"), "2001:db8::1"},
		{"IPv6 in brackets", trusted, "", "10.0.0.1:1", xff("[2001:db8::1]"), "2001:db8::1"},
		{"spaces and nothing between commas", trusted, "", "10.0.0.1:1", xff(" , 203.0.113.9\t,, 10.2.2.2 ,"), "203.0.113.9"},
		{"everybody is trusted", trusted, "", "10.0.0.1:1", xff("10.3.3.3, 10.2.2.2"), "10.3.3.3"},
		{"the proxy says nothing", trusted, "", "10.0.0.1:1", nil, "10.0.0.1"},
		{"the proxy says less", trusted, "", "10.0.0.1:1", xff(""), "10.0.0.1"},

		// Whatever the client says comes to stand left of what the proxies say.
		{"spoofed", trusted, "", "10.0.0.1:1", xff("198.51.100.1, 203.0.113.9"), "203.0.113.9"},
		{"spoofed in a line before", trusted, "", "10.0.0.1:1", xff("198.51.100.1", "203.0.113.9"), "203.0.113.9"},
		{"spoofed proxies", trusted, "", "10.0.0.1:1", xff("198.51.100.1, 10.9.9.9, 203.0.113.9"), "203.0.113.9"},
		{"rubbish", trusted, "", "10.0.0.1:1", xff(`", for=198.51.100.1, 203.0.113.9`), "203.0.113.9"},
		{"the other header", trusted, "", "10.0.0.1:1", header{
			"X-Forwarded-For": {"203.0.113.9"}, "Forwarded": {"for=198.51.100.1"},
		}, "203.0.113.9"},
		{"only the other header", trusted, "", "10.0.0.1:1", fwd("for=198.51.100.1"), "10.0.0.1"},
		{"what a proxy writes and cannot be parsed", trusted, "", "10.0.0.1:1", xff("203.0.113.9, unknown"), "10.0.0.1"},
		{"and after another proxy", trusted, "", "10.0.0.1:1", xff("unknown, 10.2.2.2"), "10.2.2.2"},
		{"a name", trusted, "", "10.0.0.1:1", xff("localhost"), "10.0.0.1"},
		{"a half address", trusted, "", "10.0.0.1:1", xff("203.0.113"), "10.0.0.1"},
		{"open brackets", trusted, "", "10.0.0.1:1", xff("[2001:db8::1"), "10.0.0.1"},
		{"IPv4 in brackets", trusted, "", "10.0.0.1:1", xff("[203.0.113.9]"), "10.0.0.1"},

		{"Forwarded", trusted, "forwarded", "10.0.0.1:1", fwd("for=203.0.113.9"), "203.0.113.9"},
		{
			"Forwarded, all of it", trusted, "forwarded", "10.0.0.1:1",
			fwd(`For="[2001:db8::1]:4711";proto=https;by=10.0.0.1;host="a,b;c=\"d"`), "2001:db8::1",
		},
		{
			"Forwarded, for later", trusted, "forwarded", "10.0.0.1:1", fwd(`host="x;for=198.51.100.1";for=203.0.113.9`),
			"203.0.113.9",
		},
		{
			"Forwarded, two proxies", trusted, "forwarded", "10.0.0.1:1", fwd(`for=203.0.113.9, for="10.2.2.2:80"`),
			"203.0.113.9",
		},
		{
			"Forwarded, two lines", trusted, "forwarded", "10.0.0.1:1", fwd(`for=198.51.100.1`, `for=203.0.113.9`),
			"203.0.113.9",
		},
		{"Forwarded, spoofed", trusted, "forwarded", "10.0.0.1:1", fwd("for=198.51.100.1, for=203.0.113.9"), "203.0.113.9"},
		{
			"Forwarded, a quote left open by the client", trusted, "forwarded", "10.0.0.1:1",
			fwd(`for="198.51.100.1, for=203.0.113.9`), "203.0.113.9",
		},
		{
			"Forwarded, and one with a backslash", trusted, "forwarded", "10.0.0.1:1", fwd(`for="\", for="203.0.113.9"`),
			"203.0.113.9",
		},
		{"Forwarded, unknown", trusted, "forwarded", "10.0.0.1:1", fwd("for=198.51.100.1, for=unknown"), "10.0.0.1"},
		{"Forwarded, hidden", trusted, "forwarded", "10.0.0.1:1", fwd(`for="_gazonk"`), "10.0.0.1"},
		{"Forwarded, without for", trusted, "forwarded", "10.0.0.1:1", fwd("for=198.51.100.1, proto=https"), "10.0.0.1"},
		{"Forwarded, two for", trusted, "forwarded", "10.0.0.1:1", fwd("for=198.51.100.1;for=203.0.113.9"), "10.0.0.1"},
		{
			"Forwarded, and the other header", trusted, "forwarded", "10.0.0.1:1",
			header{"X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=203.0.113.9"}},
			"203.0.113.9",
		},
	} {
		p := Proxies{Trusted: prefixesOf(c.trusted), Header: c.which}
		got := p.client(&http.Request{RemoteAddr: c.remote, Header: http.Header(c.header)})
		have := ""
		if got.IsValid() {
			have = got.String()
		}
		if have != c.want {
			t.Errorf("%s: comes from %q, want %q", c.name, have, c.want)
		}
	}
}

// Whatever a client writes into the headers, it neither crashes the server nor
// gets another address: what the trusted proxy appends is what counts.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range []string{
		"", "198.51.100.1", `for="198.51.100.1`, `",`, `\", for=x`, "[::1]:80, ", ";;;",
		`for="a\"b,c";by=`, "for=1.2.3.4,", "\x00\xff",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, own, other string) {
		for which, appended := range map[string]string{
			HeaderXForwardedFor: "203.0.113.9",
			HeaderForwarded:     `for="203.0.113.9:4711";proto=https`,
		} {
			name := http.CanonicalHeaderKey(which)
			p := Proxies{Trusted: prefixesOf("10.0.0.0/8"), Header: which}
			for _, lines := range [][]string{{own + ", " + appended}, {own, appended}, {other, own + "," + appended}} {
				r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{name: lines}}
				if got := p.client(r); got != netip.MustParseAddr("203.0.113.9") {
					t.Errorf("%s %q: comes from %s", which, lines, got)
				}
			}
			// Without a proxy, and with one that appends nothing: no crash.
			r := &http.Request{RemoteAddr: own, Header: http.Header{name: {own, other}}}
			p.client(r)
			r.RemoteAddr = "10.0.0.1:1"
			p.client(r)
		}
	})
}

func BenchmarkClientAddress(b *testing.B) {
	p := Proxies{Trusted: prefixesOf("10.0.0.0/8 2001:db8::/32")}
	r := &http.Request{RemoteAddr: "10.0.0.1:4711", Header: http.Header{
		"X-Forwarded-For": {"198.51.100.1, 203.0.113.9, 10.2.2.2"},
	}}
	b.ReportAllocs()
	for b.Loop() {
		p.client(r)
	}
}

// A peer that names another address than its own, and is not trusted, is found.
func TestUnnamedPeers(t *testing.T) {
	for _, c := range []struct {
		trusted, which, remote, header string
		want                           bool
	}{
		{"", "", "10.0.0.1:1", "X-Forwarded-For", true},
		{"10.0.0.0/8", "", "203.0.113.9:1", "X-Forwarded-For", true},
		{"10.0.0.0/8", "", "10.0.0.1:1", "X-Forwarded-For", false},
		{"", "", "10.0.0.1:1", "", false},
		{"", "", "@", "X-Forwarded-For", false},
		{"", "", "10.0.0.1:1", "Forwarded", false}, // not the header that is read
		{"", HeaderForwarded, "10.0.0.1:1", "Forwarded", true},
	} {
		p := Proxies{Trusted: prefixesOf(c.trusted), Header: c.which}
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{}}
		if c.header != "" {
			r.Header[c.header] = []string{"for=198.51.100.1"}
		}
		if _, got := p.find(r); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
