package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// database is a private server of a database, on one port and one data folder
// for its whole life.
type database struct {
	supervised
	url  url.URL
	port int
	stop string       // the signal by which an administrator stops it
	run  func() error // starts it, and waits until it answers
}

// Every private server has these; the password is such that tests can look for it where
// it must not be.
const (
	testUser     = "sluice"
	testPassword = "sluice-test"
	testDatabase = "sluice"
)

// prepare gives the server a port and a folder, for which it has an owner if the
// program runs as root, creates what it needs there, and starts it.
func (s *database) prepare(parent, scheme string, create func() error) error {
	dir, err := os.MkdirTemp(parent, "sluice-"+scheme+"-")
	if err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	s.dir = dir
	s.port, err = FreePort()
	s.url = url.URL{
		Scheme: scheme, User: url.UserPassword(testUser, testPassword),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: testDatabase, RawQuery: s.url.RawQuery,
	}
	if err == nil {
		err = create()
	}
	if err == nil {
		err = s.run()
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

// URL returns the URL of the server's database.
func (s *database) URL() string { return s.url.String() }

func (s *database) data() string { return filepath.Join(s.dir, "data") }

// Stop stops the server as an administrator would: transactions are rolled
// back, connections closed.
func (s *database) Stop(t testing.TB) {
	t.Helper()
	must.Succeed(t, s.end(s.stop))
}

// Kill kills the server with SIGKILL; it recovers from its log at Start.
func (s *database) Kill(t testing.TB) {
	t.Helper()
	must.Succeed(t, s.end("KILL"))
}

// Start starts the stopped server on the same port and data, and waits until
// it answers.
func (s *database) Start(t testing.TB) {
	t.Helper()
	must.Succeed(t, s.run())
}

// Halt is Kill, and Resume is Start, for a program that is no test.
func (s *database) Halt() error   { return s.end("KILL") }
func (s *database) Resume() error { return s.run() }

// Close stops the server at once and removes its folder.
func (s *database) Close() error { return errors.Join(s.end(s.last), os.RemoveAll(s.dir)) }

// missingError: a server's program is not on this machine.
type missingError struct{ why string }

func (e *missingError) Error() string { return e.why }

// available returns a server that has been started, skips the test if that needs
// a program that is missing, and fails it at any other error.
func available[S any](t testing.TB, name string, s S, err error) S {
	t.Helper()
	if missing := (*missingError)(nil); errors.As(err, &missing) {
		Unavailable(t, name, missing.Error())
	}
	must.Succeed(t, err)
	return s
}

// ofTest returns the server, which is stopped when the test ends.
func ofTest[S interface{ Close() error }](t testing.TB, name string, s S, err error) S {
	t.Helper()
	s = available(t, name, s, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// baseURL returns what an environment variable says, or the URL of a server that all tests of
// the binary share.
func baseURL[S interface{ URL() string }](t testing.TB, variable, name string, shared func() (S, error)) string {
	t.Helper()
	if base := os.Getenv(variable); base != "" {
		return base
	}
	s, err := shared()
	return available(t, name, s, err).URL()
}

var names atomic.Int64

// ownName creates a database or schema for the test, which is dropped when the
// test ends, and returns its name.
func ownName(t testing.TB, kind, cascade string, run func(ctx context.Context, statement string) error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), names.Add(1))
	if err := run(ctx, "CREATE "+kind+" "+name); err != nil {
		log, _ := crash.Load().(string)
		t.Fatalf("servertest: create %s: %v\n%s", kind, err, log)
	}
	t.Cleanup(func() {
		// A test that left a transaction open fails here instead of hanging.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := run(ctx, "DROP "+kind+" "+name+cascade); err != nil {
			t.Errorf("servertest: drop %s: %v", kind, err)
		}
	})
	return name
}

// asPostgres makes a command line that runs as the user postgres if we are root:
// PostgreSQL and PgBouncer refuse to.
func asPostgres(program string, args ...string) []string {
	line := append([]string{program}, args...)
	if os.Geteuid() != 0 {
		return line
	}
	return append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"}, line...)
}

// giveToPostgres makes the user postgres the folder's owner if we are root.
func giveToPostgres(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		return &missingError{"it does not run as root, and there is no user postgres"}
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	return nil
}
