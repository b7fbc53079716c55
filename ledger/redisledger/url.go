package redisledger

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// parseURL reads the address of a Redis, as Open documents it.
func parseURL(raw string) (rueidis.ClientOption, error) {
	var option rueidis.ClientOption
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return option, errors.New("ledger URL: want redis://HOST:PORT, rediss://, redis+sentinel:// or redis+cluster://")
	}
	secure := strings.HasPrefix(scheme, "rediss")
	kind := strings.TrimPrefix(strings.TrimPrefix(scheme, "redis"), "s")
	if !strings.HasPrefix(scheme, "redis") || kind != "" && kind != "+sentinel" && kind != "+cluster" {
		return option, errors.New("ledger URL: unknown scheme: want redis, rediss, redis+sentinel or redis+cluster")
	}
	if strings.ContainsAny(rest, "?#") {
		return option, errors.New("ledger URL: want no '?' or '#' (write them as %3F and %23 in a password)")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := parseUser(&option, rest[:at]); err != nil {
			return option, err
		}
		rest = rest[at+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	path = strings.TrimSuffix(path, "/")

	var err error
	if option.InitAddress, err = parseHosts(hosts, kind); err != nil {
		return option, err
	}
	if secure {
		option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if kind == "" {
			option.TLSConfig.ServerName, _, _ = net.SplitHostPort(option.InitAddress[0])
		}
	}
	switch kind {
	case "":
		option.ForceSingleClient = true
		return option, parseDatabase(&option, path)
	case "+cluster":
		if path != "" {
			return option, errors.New("ledger URL: a cluster has no databases: want redis+cluster://HOST:PORT,HOST:PORT")
		}
		option.ShuffleInit = true
		// A failover that no reply reveals is noticed all the same.
		option.ClusterOption.ShardsRefreshInterval = 5 * time.Second
		return option, nil
	}
	master, database, _ := strings.Cut(path, "/")
	master, err = url.PathUnescape(master)
	if err != nil || master == "" {
		return option, errors.New("ledger URL: want the name of the master: redis+sentinel://HOST:PORT,HOST:PORT/MASTER")
	}
	option.Sentinel.MasterSet = master
	option.Sentinel.TLSConfig = option.TLSConfig
	option.Sentinel.TopologyRefreshInterval = 5 * time.Second
	return option, parseDatabase(&option, database)
}

func parseUser(option *rueidis.ClientOption, info string) error {
	user, password, _ := strings.Cut(info, ":")
	var err, err2 error
	option.Username, err = url.PathUnescape(user)
	option.Password, err2 = url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("ledger URL: user or password holds a '%' that is no escape: write it as %25")
	}
	if option.Username != "" && option.Password == "" {
		return errors.New("ledger URL: want USER:PASSWORD@ or :PASSWORD@ before the host")
	}
	return nil
}

func parseHosts(list, kind string) ([]string, error) {
	port := "6379"
	if kind == "+sentinel" {
		port = "26379"
	}
	var addresses []string
	for i, address := range strings.Split(list, ",") {
		host, given, err := net.SplitHostPort(address)
		if err != nil { // no port, then
			host, given = strings.Trim(address, "[]"), port
		}
		n, err := strconv.Atoi(given)
		if host == "" || strings.ContainsAny(host, " /[]") || err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("ledger URL: host %d: want HOST:PORT with a port of 1 to 65535", i+1)
		}
		addresses = append(addresses, net.JoinHostPort(host, given))
	}
	if kind == "" && len(addresses) > 1 {
		return nil, errors.New("ledger URL: several hosts: want redis+sentinel:// or redis+cluster://")
	}
	return addresses, nil
}

func parseDatabase(option *rueidis.ClientOption, name string) error {
	if name == "" {
		return nil
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 0 {
		return errors.New("ledger URL: want a number for the database after the '/'")
	}
	option.SelectDB = n
	return nil
}
