package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// The secrets of all servers here, so that one token is good for all of them.
const (
	adminKey    = "e2e-admin-key-0123456789"
	buyerSecret = "e2e-buyer-secret-0123456789abcdef"
)

// environment is what the processes see: nothing of the person who tests.
func environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(),
		"SLUICE_ADMIN_KEY=" + adminKey, "SLUICE_BUYER_SECRET=" + buyerSecret,
	}
}

// backends are where the servers of a test keep ledger and store. The zero
// value is SQLite in the data folder of the one server.
type backends struct{ ledger, store string }

// flags are those that serve and audit share.
func (b backends) flags(dir string) []string {
	flags := []string{"--data-dir", dir}
	if b.ledger != "" {
		flags = append(flags, "--ledger", b.ledger, "--store", b.store)
	}
	return flags
}

// sharedBackends are a Redis and a PostgreSQL that other tests use as well.
func sharedBackends(t *testing.T) backends {
	return backends{servertest.Redis(t), servertest.Postgres(t)}
}

// postgresAlone is a PostgreSQL that is ledger and store.
func postgresAlone(t *testing.T) backends { return backends{"store", servertest.Postgres(t)} }

// campaignBackends are those that servers are killed on, for a few rounds or for long.
var campaignBackends = map[string]func(*testing.T) backends{
	"sqlite":             func(*testing.T) backends { return backends{} },
	"redis and postgres": sharedBackends,
	"postgres alone":     postgresAlone,
}

// campaign runs rounds on each of them in turns, for as long as SLUICE_TEST_SOAK says.
func campaign(t *testing.T, round func(*testing.T, backends, *rand.Rand)) {
	t.Helper()
	end := time.Now().Add(soak(t))
	for seed := uint64(time.Now().UnixNano()); time.Now().Before(end) && !t.Failed(); seed++ {
		for name, on := range campaignBackends {
			t.Run(name, func(t *testing.T) { round(t, on(t), seeded(t, seed)) })
		}
	}
}

// server is one `sluice serve`, which may be ended and started again. Its
// address, data folder and log stay the same.
type server struct {
	t     testing.TB
	on    backends
	dir   string
	addr  string
	url   string
	admin string   // URL of the merchant's API
	args  []string // of serve, besides those for the above

	program string // empty: the sluice that is tested

	files int      // descriptors that the process may have; 0: as many as this one
	env   []string // all of its settings, instead of flags; nil: flags, and those of all servers here

	moves int       // how often its port was taken before it ever listened
	cmd   *exec.Cmd // nil while it is not running
	ended chan struct{}
	watch *exec.Cmd // ends the process if the test binary dies
	leash io.WriteCloser
}

// newServer prepares a server with a data folder of its own.
func newServer(t testing.TB, on backends, args ...string) *server {
	s := &server{t: t, on: on, dir: t.TempDir(), args: args}
	s.move()
	t.Cleanup(func() {
		s.kill()
		s.checkLog()
	})
	return s
}

// move gives the server an address that is free now.
func (s *server) move() {
	s.t.Helper()
	s.addr = freeAddr(s.t)
	s.url = "http://" + s.addr
	s.admin = s.url
}

// startServer is newServer, running.
func startServer(t testing.TB, on backends, args ...string) *server {
	t.Helper()
	s := newServer(t, on, args...)
	s.start()
	return s
}

// freeAddr returns an address with a free port.
func freeAddr(t testing.TB) string {
	t.Helper()
	port := must.Get(servertest.FreePort())(t)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func (s *server) logPath() string   { return filepath.Join(s.dir, "serve.log") }
func (s *server) readyPath() string { return filepath.Join(s.dir, "ready") }

// log returns what the server's processes have written so far.
func (s *server) log() string {
	text, err := os.ReadFile(s.logPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Error(err)
	}
	return string(text)
}

// launch starts the process without waiting for it.
func (s *server) launch() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatal("the server is running already")
	}
	if err := os.Remove(s.readyPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{"serve", "--listen", s.addr, "--ready-file", s.readyPath()}, s.on.flags(s.dir)...)
	env := environment()
	if s.env != nil {
		args, env = []string{"serve"}, s.env
	}
	program := cmp.Or(s.program, binary)
	cmd := exec.Command(program, append(args, s.args...)...)
	if s.files > 0 {
		cmd = exec.Command("sh", append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(s.files), program},
			cmd.Args[1:]...)...)
	}
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	must.Succeed(s.t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	s.cmd, s.ended = cmd, ended

	// A test binary that dies runs no cleanup; the pipe closes all the same.
	s.watch = exec.Command("sh", "-c", `cat >/dev/null; kill -9 "$0"`, strconv.Itoa(cmd.Process.Pid))
	if s.leash, err = s.watch.StdinPipe(); err == nil {
		err = s.watch.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// ready waits until the launched server is ready.
func (s *server) ready() {
	s.t.Helper()
	await(s.t, "a server that is ready", func() bool {
		select {
		case <-s.ended:
			if s.moves < 3 && s.env == nil && strings.HasPrefix(s.log(), "sluice: cannot listen") { // it never did
				s.moves++
				s.end(syscall.SIGKILL)
				must.Succeed(s.t, os.Remove(s.logPath()))
				s.move()
				s.launch()
				return false
			}
			s.t.Fatalf("the server ended at its start: %s\n%s", s.cmd.ProcessState, s.log())
		default:
		}
		_, err := os.Stat(s.readyPath())
		return err == nil
	})
}

// start starts the server and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.ready()
}

// kill ends the server with SIGKILL, as a crash would.
func (s *server) kill() { s.end(syscall.SIGKILL) }

// terminate ends the server with SIGTERM and returns its exit code.
func (s *server) terminate() int {
	s.t.Helper()
	return s.end(syscall.SIGTERM)
}

func (s *server) end(signal os.Signal) int {
	s.t.Helper()
	if s.cmd == nil {
		return 0
	}
	// The watcher goes first: it must not end a later process of the same id.
	_ = s.watch.Process.Kill()
	_ = s.watch.Wait()
	s.leash.Close()
	_ = s.cmd.Process.Signal(signal)
	select {
	case <-s.ended:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.ended
		s.t.Errorf("the server does not end by %s\n%s", signal, s.log())
	}
	code := s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	return code
}

// checkLog finds what must not be in a log: crashes, secrets, passwords.
func (s *server) checkLog() {
	log := s.log()
	for _, bad := range []string{"panic", "goroutine ", "unexpected error", adminKey, buyerSecret, "sluice-test"} {
		if strings.Contains(log, bad) {
			s.t.Errorf("the server's log has %q", bad)
		}
	}
	if s.t.Failed() {
		s.t.Logf("log of the server on %s:\n%s", s.addr, tail(log, 40))
	}
}

func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// merchant returns a client with the admin key.
func (s *server) merchant() *client.Client {
	s.t.Helper()
	c := must.Get(client.New(s.admin, client.Options{AdminKey: adminKey}))(s.t)
	return c
}

// command runs the binary to its end and returns its exit code and output.
func command(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var out, problems bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), &out, &problems
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}
