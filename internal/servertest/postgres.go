package servertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Postgres returns the URL of an empty schema of a PostgreSQL database, the
// test's own, which is dropped when the test ends. All tests of a binary share
// one server; it ends with the binary.
func Postgres(t testing.TB) string {
	t.Helper()
	base := baseURL(t, "SLUICE_TEST_POSTGRES_URL", "postgres", sharedPostgres)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal("SLUICE_TEST_POSTGRES_URL is not a URL")
	}
	name := ownName(t, "SCHEMA", " CASCADE", func(ctx context.Context, statement string) error {
		conn, err := pgx.Connect(ctx, base)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, statement)
		return err
	})
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	return u.String()
}

// StartPostgres returns a PostgreSQL server for this test alone, so that it may
// be stopped and started again. It is stopped when the test ends.
// SLUICE_TEST_POSTGRES_URL has no say here.
func StartPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	s, err := NewPostgres("")
	return ofTest(t, "postgres", s, err)
}

// PostgresServer is a private PostgreSQL server with one database.
type PostgresServer struct {
	database
	bin string
}

// sharedPostgres starts the server of this test binary, once. Its supervisor
// stops it and removes its folder when the binary is gone.
var sharedPostgres = sync.OnceValues(func() (*PostgresServer, error) { return NewPostgres("") })

// NewPostgres returns a PostgreSQL server, for a program that is no test too,
// with its data in a new folder below dir, which the user postgres must be able
// to reach if the program runs as root. Close it.
func NewPostgres(dir string) (*PostgresServer, error) {
	bin, err := PostgresPrograms()
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{bin: bin}
	s.database = database{
		// SIGQUIT ends all processes of it at once.
		supervised: supervised{name: "postgres", last: "QUIT"}, stop: "INT", run: s.start,
		url: url.URL{RawQuery: "sslmode=disable"},
	}
	return s, s.prepare(dir, "postgres", s.create)
}

// PostgresPrograms returns the folder of PostgreSQL's programs on this machine:
// that of initdb on the PATH, or Debian's of the highest version.
func PostgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", &missingError{"no initdb on the PATH or in /usr/lib/postgresql/*/bin"}
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	best := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(best), nil
}

// create makes the data folder.
func (s *PostgresServer) create() error {
	if err := giveToPostgres(s.dir); err != nil {
		return err
	}
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte(testPassword+"\n"), 0o644); err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	line := asPostgres(filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", testUser, "--pwfile", password,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = s.dir // the current one may be closed to the user postgres
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("servertest: initdb: %w\n%s", err, out)
	}
	return nil
}

// start starts the server, and makes its database.
func (s *PostgresServer) start() error {
	return s.supervised.start(asPostgres(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200",
		"-c", "timezone=Asia/Shanghai", // so that a time that depends on it is seen
		"-c", "log_min_messages=warning"), func(ctx context.Context) error {
		admin := s.url
		admin.Path = "postgres"
		conn, err := pgx.Connect(ctx, admin.String())
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		var exists bool
		err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", testDatabase).Scan(&exists)
		if err == nil && !exists {
			_, err = conn.Exec(ctx, "CREATE DATABASE "+testDatabase)
		}
		return err
	})
}
