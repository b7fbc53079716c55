package pgstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice/internal/sqlcore"
)

// parse reads the URL. Errors never show it: it may hold a password, and in a
// URL that cannot be parsed there is no telling where.
func parse(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed: " +
			"want postgres://user:password@host:port/database, with special characters percent-encoded")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("want a URL like postgres://user:password@host:port/database")
	}
	config, err := pgxpool.ParseConfig(text)
	if err == nil {
		if !u.Query().Has("pool_max_conns") {
			config.MaxConns = defaultConns
		}
		return config, nil
	}
	detail := oneSentence(err)
	if inner := errors.Unwrap(err); inner != nil {
		detail = oneSentence(inner)
	}
	if password, _ := u.User.Password(); password != "" && strings.Contains(detail, password) ||
		strings.Contains(detail, u.Query().Get("password")) && u.Query().Has("password") {
		detail = "a setting in it is not valid"
	}
	return nil, fmt.Errorf("the URL: %s", detail)
}

// databaseName names the database in errors, without user or password.
func databaseName(c *pgx.ConnConfig) string {
	return fmt.Sprintf("database %s at %s", strconv.Quote(c.Database), net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))))
}

func plain(err error) error {
	if connecting := (*pgconn.ConnectError)(nil); errors.As(err, &connecting) {
		return sqlcore.Plainly(oneSentence(connecting.Unwrap()), err)
	}
	return err
}

// isAway reports that the database is not there, but not that it refuses.
func isAway(err error) bool {
	switch sqlState(err) {
	case "":
		connecting, network := (*pgconn.ConnectError)(nil), net.Error(nil)
		return errors.As(err, &connecting) || errors.As(err, &network)
	case adminShutdown, crashShutdown, cannotConnectNow, tooManyConnections, takesNoConnections:
		return true
	}
	return false
}

// oneSentence joins the lines of an error, each once: pgx tries every address,
// with and without TLS, and reports each.
func oneSentence(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
