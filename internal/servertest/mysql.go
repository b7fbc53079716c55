package servertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQL returns the URL of an empty database of a MariaDB server, or of the
// MySQL or MariaDB server in SLUICE_TEST_MYSQL_URL, whose user must be allowed
// to create databases. The database is the test's own and dropped when the test
// ends. All tests of a binary share one server; it ends with the binary.
func MySQL(t testing.TB) string {
	t.Helper()
	base := os.Getenv("SLUICE_TEST_MYSQL_URL")
	if base == "" {
		shared, err := sharedMySQL()
		if missing := (*missingError)(nil); errors.As(err, &missing) {
			unavailable(t, "mysql", missing.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		base = shared.URL()
	}
	return ownDatabase(t, base)
}

// StartMySQL returns a MariaDB server for this test alone, so that it may be
// stopped and started again. Args are further options of mariadbd. It is
// stopped when the test ends. SLUICE_TEST_MYSQL_URL has no say here.
func StartMySQL(t testing.TB, args ...string) *MySQLServer {
	t.Helper()
	s, err := newMySQL(args...)
	if missing := (*missingError)(nil); errors.As(err, &missing) {
		unavailable(t, "mysql", missing.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.end("KILL"); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(s.dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// MySQLServer is a private MariaDB server with one database, on one port and
// one data folder for its whole life.
type MySQLServer struct {
	supervised
	program string
	args    []string
	port    int
}

const (
	mysqlUser     = "sluice"
	mysqlPassword = "sluice-test" // so that tests can look for it where it must not be
	mysqlDatabase = "sluice"
)

// URL returns the URL of the server's database.
func (s *MySQLServer) URL() string {
	u := url.URL{
		Scheme: "mysql", User: url.UserPassword(mysqlUser, mysqlPassword),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: mysqlDatabase,
	}
	return u.String()
}

// Stop stops the server as an administrator would: transactions are rolled
// back, connections closed.
func (s *MySQLServer) Stop(t testing.TB) {
	t.Helper()
	if err := s.end("TERM"); err != nil {
		t.Fatal(err)
	}
}

// Kill kills the server with SIGKILL; it recovers from its log at Start.
func (s *MySQLServer) Kill(t testing.TB) {
	t.Helper()
	if err := s.end("KILL"); err != nil {
		t.Fatal(err)
	}
}

// Start starts the stopped server on the same port and data, and waits until
// it answers.
func (s *MySQLServer) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// sharedMySQL starts the server of this test binary, once. Its supervisor
// stops it and removes its folder when the binary is gone.
var sharedMySQL = sync.OnceValues(func() (*MySQLServer, error) { return newMySQL() })

func newMySQL(args ...string) (*MySQLServer, error) {
	program, installer, err := mysqlPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-mysql-")
	if err != nil {
		return nil, fmt.Errorf("servertest: %w", err)
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &MySQLServer{supervised: supervised{name: "mariadbd", dir: dir, last: "KILL"}, program: program, args: args, port: port}
	if err := s.create(installer); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// mysqlPrograms finds mariadbd, which Debian keeps where only root looks, and
// the program that makes its data folder.
func mysqlPrograms() (server, installer string, err error) {
	installer, err = exec.LookPath("mariadb-install-db")
	if err != nil {
		return "", "", &missingError{"no mariadb-install-db on the PATH"}
	}
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd"} {
		if server, err = exec.LookPath(name); err == nil {
			return server, installer, nil
		}
	}
	return "", "", &missingError{"no mariadbd on the PATH or in /usr/sbin"}
}

// options are common to the server and to the program that makes its folder.
// MariaDB runs as root only if told so; nobody else can reach the folder.
func (s *MySQLServer) options() []string {
	options := []string{"--no-defaults", "--datadir=" + s.data()}
	if os.Geteuid() == 0 {
		options = append(options, "--user=root")
	}
	return options
}

func (s *MySQLServer) data() string { return filepath.Join(s.dir, "data") }

// initFile is run at every start of the server.
func (s *MySQLServer) initFile() string { return filepath.Join(s.dir, "init.sql") }

// create makes the data folder, and the file that makes user and database.
func (s *MySQLServer) create(installer string) error {
	cmd := exec.Command(installer, append(s.options(), "--auth-root-authentication-method=normal", "--skip-test-db")...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("servertest: mariadb-install-db: %w\n%s", err, out)
	}
	init := fmt.Sprintf("CREATE USER IF NOT EXISTS %[1]s@'127.0.0.1' IDENTIFIED BY '%[2]s';\nGRANT ALL ON *.* TO %[1]s@'127.0.0.1';\nCREATE DATABASE IF NOT EXISTS %[3]s;\n",
		mysqlUser, mysqlPassword, mysqlDatabase)
	if err := os.WriteFile(s.initFile(), []byte(init), 0o600); err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	return nil
}

func (s *MySQLServer) start() error {
	line := append([]string{s.program}, s.options()...)
	line = append(line, "--port="+strconv.Itoa(s.port), "--bind-address=127.0.0.1", "--socket="+filepath.Join(s.dir, "socket"),
		"--pid-file="+filepath.Join(s.dir, "pid"), "--init-file="+s.initFile(), "--skip-name-resolve", "--max-connections=200",
		// What a store must not depend on is as no store wants it.
		"--default-time-zone=+08:00", "--sql-mode=", "--character-set-server=latin1", "--transaction-isolation=SERIALIZABLE")
	return s.supervised.start(append(line, s.args...), s.await)
}

// await waits until the server answers.
func (s *MySQLServer) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := openMySQL(s.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		var folder string
		err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&folder)
		if err == nil && filepath.Clean(folder) != s.data() {
			err = errors.New("another server has the port")
		}
		if err == nil {
			return nil
		}
		// Before it listens there is nothing to wait on but the clock.
		select {
		case <-ctx.Done():
			return err
		case <-s.gone:
			return errors.New("it has ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// openMySQL is for what tests themselves do. Settings in the URL are those of
// the store and left out.
func openMySQL(base string) (*sql.DB, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("servertest: SLUICE_TEST_MYSQL_URL is not a URL")
	}
	config := mysql.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Addr, config.Logger = u.Host, &mysql.NopLogger{}
	if len(u.Path) > 1 {
		config.DBName = u.Path[1:]
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("servertest: mysql: %w", err)
	}
	return sql.OpenDB(connector), nil
}

var databases atomic.Int64

// ownDatabase makes a database for the test and returns the URL that leads
// there.
func ownDatabase(t testing.TB, base string) string {
	t.Helper()
	db, err := openMySQL(base)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), databases.Add(1))
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("servertest: mysql: %v", err)
	}
	t.Cleanup(func() {
		defer db.Close()
		// A test that left a transaction open fails here instead of hanging.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := db.ExecContext(ctx, "DROP DATABASE "+name); err != nil {
			t.Errorf("servertest: mysql: drop database: %v", err)
		}
	})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}
