package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres returns the URL of an empty schema of a PostgreSQL database, the
// test's own, which is dropped when the test ends. All tests of a binary share
// one server; it ends with the binary.
func Postgres(t testing.TB) string {
	t.Helper()
	base := os.Getenv("SLUICE_TEST_POSTGRES_URL")
	if base == "" {
		shared, err := sharedPostgres()
		if missing := (*missingError)(nil); errors.As(err, &missing) {
			unavailable(t, "postgres", missing.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		base = shared.URL()
	}
	return ownSchema(t, base)
}

// StartPostgres returns a PostgreSQL server for this test alone, so that it may
// be stopped and started again. It is stopped when the test ends.
// SLUICE_TEST_POSTGRES_URL has no say here.
func StartPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	s, err := newPostgres("")
	if missing := (*missingError)(nil); errors.As(err, &missing) {
		unavailable(t, "postgres", missing.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// NewPostgres returns a PostgreSQL server for a program that is no test, with
// its data in a new folder below dir, which the user postgres must be able to
// reach if the program runs as root. Close it.
func NewPostgres(dir string) (*PostgresServer, error) { return newPostgres(dir) }

// Close stops the server at once and removes its folder.
func (s *PostgresServer) Close() error { return errors.Join(s.end("QUIT"), os.RemoveAll(s.dir)) }

// PostgresServer is a private PostgreSQL server with one database, on one port
// and one data folder for its whole life.
type PostgresServer struct {
	supervised
	bin  string
	port int
}

const (
	postgresUser     = "sluice"
	postgresPassword = "sluice-test" // so that tests can look for it where it must not be
	postgresDatabase = "sluice"
)

// URL returns the URL of the server's database.
func (s *PostgresServer) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(postgresUser, postgresPassword),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: postgresDatabase, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Stop stops the server as an administrator would: transactions are rolled
// back, connections closed.
func (s *PostgresServer) Stop(t testing.TB) {
	t.Helper()
	if err := s.end("INT"); err != nil {
		t.Fatal(err)
	}
}

// Kill kills the server with SIGKILL; it recovers from its log at Start.
func (s *PostgresServer) Kill(t testing.TB) {
	t.Helper()
	if err := s.end("KILL"); err != nil {
		t.Fatal(err)
	}
}

// Start starts the stopped server on the same port and data, and waits until
// it answers.
func (s *PostgresServer) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// missingError: PostgreSQL is not on this machine.
type missingError struct{ why string }

func (e *missingError) Error() string { return e.why }

// sharedPostgres starts the server of this test binary, once. Its supervisor
// stops it and removes its folder when the binary is gone.
var sharedPostgres = sync.OnceValues(func() (*PostgresServer, error) { return newPostgres("") })

func newPostgres(parent string) (*PostgresServer, error) {
	bin, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "sluice-postgres-")
	if err != nil {
		return nil, fmt.Errorf("servertest: %w", err)
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	// SIGQUIT ends all processes of it at once.
	s := &PostgresServer{supervised: supervised{name: "postgres", dir: dir, last: "QUIT"}, bin: bin, port: port}
	if err := s.create(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// PostgresPrograms returns the folder of PostgreSQL's programs on this machine,
// or says that there is none.
func PostgresPrograms() (string, error) { return postgresFolder() }

// postgresFolder finds initdb and postgres: on the PATH, or in Debian's folder
// of the highest version.
func postgresFolder() (string, error) {
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

// command makes a command line that runs as the user postgres if we are root:
// PostgreSQL refuses to.
func (s *PostgresServer) command(program string, args ...string) []string {
	return asPostgres(filepath.Join(s.bin, program), args...)
}

func asPostgres(program string, args ...string) []string {
	line := append([]string{program}, args...)
	if os.Geteuid() != 0 {
		return line
	}
	return append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"}, line...)
}

// create makes the data folder and the database.
func (s *PostgresServer) create() error {
	if os.Geteuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			return &missingError{"PostgreSQL does not run as root, and there is no user postgres"}
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return fmt.Errorf("servertest: %w", err)
		}
	}
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte(postgresPassword+"\n"), 0o644); err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	line := s.command("initdb", "--pgdata", s.data(), "--username", postgresUser, "--pwfile", password,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = s.dir // the current one may be closed to the user postgres
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("servertest: initdb: %w\n%s", err, out)
	}
	return nil
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }

func (s *PostgresServer) start() error {
	return s.supervised.start(s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200",
		"-c", "timezone=Asia/Shanghai", // so that a time that depends on it is seen
		"-c", "log_min_messages=warning"), s.await)
}

// await waits until the server answers, and makes its database.
func (s *PostgresServer) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	admin := strings.Replace(s.URL(), "/"+postgresDatabase+"?", "/postgres?", 1)
	var conn *pgx.Conn
	for {
		var err error
		if conn, err = pgx.Connect(ctx, admin); err == nil {
			break
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
	defer conn.Close(ctx)
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", postgresDatabase).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+postgresDatabase)
	return err
}

var schemas atomic.Int64

// ownSchema makes a schema for the test and returns the URL that leads there.
func ownSchema(t testing.TB, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal("SLUICE_TEST_POSTGRES_URL is not a URL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	run := func(ctx context.Context, statement string) error {
		conn, err := pgx.Connect(ctx, base)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, statement)
		return err
	}
	if err := run(ctx, "CREATE SCHEMA "+name); err != nil {
		t.Fatalf("servertest: postgres: %v", err)
	}
	t.Cleanup(func() {
		// A test that left a transaction open fails here instead of hanging.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := run(ctx, "DROP SCHEMA "+name+" CASCADE"); err != nil {
			t.Errorf("servertest: postgres: drop schema: %v", err)
		}
	})
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	return u.String()
}
