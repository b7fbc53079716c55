package servertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sluicehq/sluice/internal/must"
)

// MySQL returns the URL of an empty database of a MariaDB server, or of the
// MySQL or MariaDB server in SLUICE_TEST_MYSQL_URL, whose user must be allowed
// to create databases. The database is the test's own and dropped when the test
// ends. All tests of a binary share one server; it ends with the binary.
func MySQL(t testing.TB) string {
	t.Helper()
	base := baseURL(t, "SLUICE_TEST_MYSQL_URL", "mysql", sharedMySQL)
	db, err := openMySQL(base)
	must.Succeed(t, err)
	t.Cleanup(func() { db.Close() })
	name := ownName(t, "DATABASE", "", func(ctx context.Context, statement string) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
	u, err := url.Parse(base)
	must.Succeed(t, err)
	u.Path = "/" + name
	return u.String()
}

// StartMySQL returns a MariaDB server for this test alone, so that it may be
// stopped and started again. Args are further options of mariadbd. It is
// stopped when the test ends. SLUICE_TEST_MYSQL_URL has no say here.
func StartMySQL(t testing.TB, args ...string) *MySQLServer {
	t.Helper()
	s, err := newMySQL(args...)
	return ofTest(t, "mysql", s, err)
}

// MySQLServer is a private MariaDB server with one database.
type MySQLServer struct {
	database
	program string
	args    []string
}

// sharedMySQL starts the server of this test binary, once. Its supervisor
// stops it and removes its folder when the binary is gone.
var sharedMySQL = sync.OnceValues(func() (*MySQLServer, error) { return newMySQL() })

func newMySQL(args ...string) (*MySQLServer, error) {
	program, installer, err := mysqlPrograms()
	if err != nil {
		return nil, err
	}
	s := &MySQLServer{program: program, args: args}
	s.database = database{supervised: supervised{name: "mariadbd", last: "KILL"}, stop: "TERM", run: s.start}
	return s, s.prepare("", "mysql", func() error { return s.create(installer) })
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
// MariaDB runs as root only with this option; no other user can reach the folder.
// Each has a folder for its temporary tables: a MariaDB that starts deletes what
// others have in a shared one, and they crash.
func (s *MySQLServer) options() []string {
	options := []string{"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.dir}
	if os.Geteuid() == 0 {
		options = append(options, "--user=root")
	}
	return options
}

// initFile is run at every start of the server.
func (s *MySQLServer) initFile() string { return filepath.Join(s.dir, "init.sql") }

// create makes the data folder, and the file that makes user and database.
func (s *MySQLServer) create(installer string) error {
	cmd := exec.Command(installer, append(s.options(), "--auth-root-authentication-method=normal", "--skip-test-db")...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("servertest: mariadb-install-db: %w\n%s", err, out)
	}
	const user = testUser + "@'127.0.0.1'"
	init := "CREATE USER IF NOT EXISTS " + user + " IDENTIFIED BY '" + testPassword + "';\n" +
		"GRANT ALL ON *.* TO " + user + ";\nCREATE DATABASE IF NOT EXISTS " + testDatabase + ";\n"
	if err := os.WriteFile(s.initFile(), []byte(init), 0o600); err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	return nil
}

func (s *MySQLServer) start() error {
	line := append([]string{s.program}, s.options()...)
	line = append(line, "--port="+strconv.Itoa(s.port), "--bind-address=127.0.0.1",
		"--socket="+filepath.Join(s.dir, "socket"), "--pid-file="+filepath.Join(s.dir, "pid"),
		"--init-file="+s.initFile(), "--skip-name-resolve", "--max-connections=200",
		// What a store must not depend on is as no store wants it.
		"--default-time-zone=+08:00", "--sql-mode=", "--character-set-server=latin1", "--transaction-isolation=SERIALIZABLE")
	db, err := openMySQL(s.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	return s.supervised.start(append(line, s.args...), func(ctx context.Context) error {
		var folder string
		err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&folder)
		if err == nil && filepath.Clean(folder) != s.data() {
			err = errors.New("another server has the port")
		}
		return err
	})
}

// openMySQL opens a connection for tests themselves. It leaves out the URL's settings, which
// are the store's.
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
