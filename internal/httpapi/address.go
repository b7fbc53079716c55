package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
)

// Proxies says which hops before this server are believed when they say where
// a request comes from, and in which header they do. The zero value trusts no
// proxy: a request comes from the peer of its connection.
type Proxies struct {
	// Trusted are the addresses of the proxies.
	Trusted []netip.Prefix
	// Header is the one that all of them write: HeaderXForwardedFor (or empty)
	// or HeaderForwarded. Any other is the client's own word and not read.
	Header string
}

// The headers in which proxies say where a request comes from.
const (
	HeaderXForwardedFor = "x-forwarded-for"
	HeaderForwarded     = "forwarded" // RFC 7239
)

func (p *Proxies) trusts(address netip.Addr) bool {
	for _, prefix := range p.Trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// client is where a request comes from: the nearest hop that is not a trusted
// proxy, found from right to left, since each proxy appends who has connected
// to it, and anything further left is unverified. If a trusted proxy names no
// valid address, the request comes from that proxy itself: limits then count all
// such requests together. The zero Addr: the connection has no address.
func (p *Proxies) client(r *http.Request) netip.Addr {
	client, _ := p.find(r)
	return client
}

// find is client, and reports whether the peer of the connection says that the
// request comes from another, and is not trusted.
func (p *Proxies) find(r *http.Request) (client netip.Addr, unnamed bool) {
	hop := peer(r.RemoteAddr)
	lines := r.Header[p.header()]
	if len(p.Trusted) == 0 || !hop.IsValid() || !p.trusts(hop) {
		return hop, hop.IsValid() && len(lines) > 0
	}
	parse := parseNode
	if p.Header == HeaderForwarded {
		parse = parseForwarded
	}
	for i := len(lines) - 1; i >= 0; i-- {
		for rest := lines[i]; rest != ""; {
			var element string
			rest, element = lastElement(rest, p.Header == HeaderForwarded)
			if element == "" {
				continue // lists may have empty elements
			}
			before := parse(element)
			if !before.IsValid() {
				return hop, false
			}
			if hop = before; !p.trusts(hop) {
				return hop, false
			}
		}
	}
	return hop, false
}

// header is the name of Header as net/http has it.
func (p *Proxies) header() string {
	if p.Header == HeaderForwarded {
		return "Forwarded"
	}
	return "X-Forwarded-For"
}

// peer is the address of the connection.
func peer(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// lastElement cuts the last element off a comma-separated list. It reads
// backwards, so that nothing a client has put further left, an open quote for
// instance, can change what a proxy has appended.
func lastElement(list string, quoted bool) (rest, element string) {
	inside := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case c == '"' && quoted && !escaped(list, i):
			inside = !inside
		case c == ',' && !inside:
			return list[:i], strings.TrimSpace(list[i+1:])
		}
	}
	return "", strings.TrimSpace(list)
}

// escaped reports whether the character at i follows an odd number of
// backslashes.
func escaped(text string, i int) bool {
	n := 0
	for i--; i >= 0 && text[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// parseForwarded returns the address of an element's "for", or the zero Addr if
// it has none, or several, or one that is no address ("unknown", "_hidden").
func parseForwarded(element string) (address netip.Addr) {
	found := false
	for element != "" {
		var pair string
		pair, element = cutPair(element)
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "for") {
			continue
		}
		if found {
			return netip.Addr{}
		}
		found = true
		value = strings.TrimSpace(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1] // no address needs a backslash
		}
		address = parseNode(value)
	}
	return address
}

// cutPair cuts the first pair off an element, at a semicolon outside quotes.
func cutPair(element string) (pair, rest string) {
	inside := false
	for i := range len(element) {
		switch c := element[i]; {
		case c == '"' && !escaped(element, i):
			inside = !inside
		case c == ';' && !inside:
			return element[:i], element[i+1:]
		}
	}
	return element, ""
}

// parseNode reads an address, with or without a port: 203.0.113.9,
// 203.0.113.9:4711, 2001:db8::1, [2001:db8::1], [2001:db8::1]:4711. The zero
// Addr if it is none.
func parseNode(text string) netip.Addr {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().WithZone("")
	}
	if strings.HasPrefix(text, "[") {
		if inner, ok := strings.CutSuffix(text[1:], "]"); ok {
			if address, err := netip.ParseAddr(inner); err == nil && address.Is6() {
				return address.Unmap().WithZone("")
			}
			return netip.Addr{}
		}
	}
	return peer(text)
}
