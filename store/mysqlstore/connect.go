package mysqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sluicehq/sluice/internal/sqlcore"
)

const urlForm = "mysql://user:password@host:port/database"

// Defaults of settings in the URL.
const (
	defaultPort  = "3306"
	defaultConns = 12
)

// address is what a URL says.
type address struct {
	config *mysql.Config
	conns  int           // pool_max_conns
	dial   time.Duration // connect_timeout; 0 if it is not given
}

// parse reads the URL. Errors never show it: it may hold a password, and in a
// URL that cannot be parsed there is no telling where.
func parse(text string) (*address, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed: want " + urlForm + ", with special characters percent-encoded")
	}
	name := strings.TrimPrefix(u.Path, "/")
	if u.Scheme != "mysql" || u.Host == "" || u.Fragment != "" {
		return nil, errors.New("want a URL like " + urlForm)
	}
	if name == "" || strings.Contains(name, "/") {
		return nil, errors.New("the URL names no database: want " + urlForm)
	}
	a := &address{config: mysql.NewConfig(), conns: defaultConns}
	c := a.config
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Addr = net.JoinHostPort(u.Hostname(), defaultPort)
	if port := u.Port(); port != "" {
		c.Addr = net.JoinHostPort(u.Hostname(), port)
	}
	c.DBName, c.TLSConfig = name, "preferred"
	c.Logger = &mysql.NopLogger{} // what it would log comes back as an error as well

	c.Loc, c.ParseTime = time.UTC, true
	c.Collation = "utf8mb4_bin"
	c.InterpolateParams = true // one round trip for a statement instead of two
	c.ClientFoundRows = false  // an INSERT is counted by the rows that it changes
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the settings in the URL cannot be parsed")
	}
	for name, values := range query {
		if err := a.set(name, values[len(values)-1]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// set sets what the URL says after the question mark. What is not listed here
// is either not ours to give away (time zone, character set, ...) or a typing
// error.
func (a *address) set(name, value string) (err error) {
	c := a.config
	switch name {
	case "tls":
		if c.TLSConfig = value; !slices.Contains([]string{"true", "false", "skip-verify", "preferred"}, value) {
			err = errors.New("want true, false, skip-verify or preferred")
		}
	case "connect_timeout":
		a.dial, err = seconds(value)
	case "read_timeout":
		c.ReadTimeout, err = seconds(value)
	case "write_timeout":
		c.WriteTimeout, err = seconds(value)
	case "pool_max_conns":
		if a.conns, err = strconv.Atoi(value); err != nil || a.conns < 2 || a.conns > 10_000 {
			err = errors.New("want 2 to 10000") // a snapshot holds one while orders are stored
		}
	default:
		return fmt.Errorf("the URL: unknown setting %s: "+
			"want tls, connect_timeout, read_timeout, write_timeout or pool_max_conns", strconv.Quote(name))
	}
	if err != nil {
		return fmt.Errorf("the URL: %s: %w", name, err)
	}
	return nil
}

func seconds(value string) (time.Duration, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > 3600 {
		return 0, errors.New("want 1 to 3600, in seconds")
	}
	return time.Duration(n) * time.Second, nil
}

// session makes every connection the same, whatever the server is configured
// for. Strict: what does not fit is an error, not cut off. Under READ COMMITTED
// nothing but the rows that a statement finds is locked, and each statement
// sees what is committed. The times, in seconds, are the same as in pgstore's session;
// MariaDB reads the first comment, and MySQL, which knows no time for idle
// transactions alone, the second.
var session = []string{
	`SET SESSION
		sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION',
		time_zone = '+00:00', innodb_lock_wait_timeout = 3, net_read_timeout = 10
		/*M!100600 , max_statement_time = 60, idle_write_transaction_timeout = 10, idle_transaction_timeout = 120 */
		/*!80000 , max_execution_time = 60000, wait_timeout = 120 */`,
	`SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`,
}

// unlimited undoes the limits of session, but for the wait for a table.
const unlimited = `SET SESSION innodb_lock_wait_timeout = 300, lock_wait_timeout = 1
	/*M!100600 , max_statement_time = 0, idle_write_transaction_timeout = 0, idle_transaction_timeout = 0 */
	/*!80000 , max_execution_time = 0, wait_timeout = 28800 */`

// readOnly begins a connection that must not write.
const readOnly = `SET SESSION TRANSACTION READ ONLY`

// connector connects within a time and prepares each connection.
type connector struct {
	driver.Connector
	timeout time.Duration
	session []string
}

func (c *connector) Connect(ctx context.Context) (_ driver.Conn, err error) {
	own, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer func() {
		if err != nil && own.Err() != nil && ctx.Err() == nil {
			err = sqlcore.Plainly("it does not answer within "+c.timeout.String(), context.DeadlineExceeded)
		}
	}()
	conn, err := c.Connector.Connect(own)
	if err != nil {
		return nil, err
	}
	for _, statement := range c.session {
		if _, err := conn.(driver.ExecerContext).ExecContext(own, statement, nil); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

func plain(err error) error {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) {
		return sqlcore.Plainly("the connection broke", err)
	}
	return err
}

// isAway reports that the database is not there, but not that it refuses.
func isAway(err error) bool {
	switch errorNumber(err) {
	case 0:
		network := net.Error(nil)
		return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) ||
			errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	case tooManyConnections, tooManyOfUser, serverShutdown, sessionKilled, sessionKilledOfMySQL:
		return true
	}
	return false
}
