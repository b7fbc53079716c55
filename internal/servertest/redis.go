package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// redisStartTimeout is how long a Redis may take until it answers, the replay
// of its append-only file included.
const redisStartTimeout = 15 * time.Second

var sharedRedis struct {
	sync.Mutex
	server *RedisServer // kept, since its leash must not be collected
	err    error
}

// Redis returns the URL of a Redis that all tests of the binary share: the one
// in SLUICE_TEST_REDIS_URL, else one that is started on first use and ends with
// the binary. Tests keep apart by unique sale ids and never flush it.
func Redis(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("SLUICE_TEST_REDIS_URL"); url != "" {
		return url
	}
	program := redisProgram(t)
	sharedRedis.Lock()
	defer sharedRedis.Unlock()
	if sharedRedis.server == nil {
		sharedRedis.server = &RedisServer{program: program}
		sharedRedis.err = sharedRedis.server.startFirst()
	}
	if sharedRedis.err != nil {
		t.Fatal(sharedRedis.err)
	}
	return sharedRedis.server.URL()
}

// RedisServer is a Redis of one test's own, which the test may harm.
type RedisServer struct {
	t       testing.TB // nil of the shared one
	program string
	file    string // of its settings, if it has one: a sentinel writes into it
	args    []string
	env     []string // besides the test's own
	parent  string   // of dir; empty: that of temporary files
	dir     string
	port    int

	cmd   *exec.Cmd       // nil while it is not running
	ended <-chan struct{} // closed when cmd has ended
	watch *exec.Cmd       // ends the server if the test binary dies
	leash io.WriteCloser  // what watch listens to
}

// StartRedis starts a Redis of the test's own: append-only file with
// appendfsync always, no snapshots. Later args win over these. It is stopped
// and its folder removed when the test ends.
func StartRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startOwn(t, &RedisServer{t: t, program: redisProgram(t), args: args})
}

// NewRedis returns such a Redis for a program that is no test, with its data in a new
// folder below dir. Close it.
func NewRedis(dir string, args ...string) (*RedisServer, error) {
	program, err := redisPath()
	if err != nil {
		return nil, err
	}
	s := &RedisServer{program: program, args: args, parent: dir}
	return s, s.startFirst()
}

// Close ends the server and removes its folder.
func (s *RedisServer) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

// Pid returns the id of the server's process.
func (s *RedisServer) Pid() int { return s.cmd.Process.Pid }

// Restart is Start for a program that is no test.
func (s *RedisServer) Restart() error { return s.start() }

// TakeOver starts the server again, which was killed, with the data of a replica,
// which it ends: as if clients had been led to the replica.
func (s *RedisServer) TakeOver(replica *RedisServer) error {
	replica.Stop()
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	if err := os.Rename(replica.dir, s.dir); err != nil {
		return err
	}
	return s.start()
}

func startOwn(t testing.TB, s *RedisServer) *RedisServer {
	t.Helper()
	must.Succeed(t, s.startFirst())
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(s.dir)
	})
	return s
}

// Replica starts a replica of the server, with the same settings.
func (s *RedisServer) Replica(t testing.TB) *RedisServer {
	t.Helper()
	return StartRedis(t, append(slices.Clone(s.args), "--replicaof", "127.0.0.1 "+strconv.Itoa(s.port))...)
}

// URL returns the server's address as a redis:// URL.
func (s *RedisServer) URL() string { return "redis://" + s.Addr() }

// Addr returns host:port, the same after every Start.
func (s *RedisServer) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Dir returns the folder with the append-only file.
func (s *RedisServer) Dir() string { return s.dir }

// Kill ends the server with SIGKILL, as a crash of the process would. It does
// nothing while the server is not running.
func (s *RedisServer) Kill() { s.end(func(p *os.Process) error { return p.Kill() }) }

// Stop ends the server in good order.
func (s *RedisServer) Stop() { s.end(func(p *os.Process) error { return p.Signal(os.Interrupt) }) }

// Freeze stops the server's process without ending it: it keeps its
// connections and answers nothing, until Thaw.
func (s *RedisServer) Freeze() { _ = Freeze(s.cmd.Process.Pid) }

// Thaw ends Freeze.
func (s *RedisServer) Thaw() { _ = Thaw(s.cmd.Process.Pid) }

// Runs reports whether the server has been started and not been ended.
func (s *RedisServer) Runs() bool { return s.cmd != nil }

// Ask sends one inline command and returns the lines of the answer.
func (s *RedisServer) Ask(command string) ([]string, error) { return askRedis(s.Addr(), command) }

func (s *RedisServer) end(signal func(*os.Process) error) {
	if s.cmd == nil {
		return
	}
	// The watcher goes first, so that it cannot end a later process that got
	// the same id.
	_ = s.watch.Process.Kill()
	_ = s.watch.Wait()
	s.leash.Close()
	_ = signal(s.cmd.Process)
	<-s.ended
	s.cmd = nil
}

// Start starts the server again on the same port and folder, after Kill or
// Stop, and returns when it has read its append-only file and answers.
func (s *RedisServer) Start() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatal("servertest: redis is running already")
	}
	must.Succeed(s.t, s.start())
}

// startFirst picks the folder and a free port, which another process may take
// before the server does.
func (s *RedisServer) startFirst() error {
	dir, err := os.MkdirTemp(s.parent, "sluice-redis-")
	if err != nil {
		return err
	}
	s.dir = dir
	for range 5 {
		if s.port, err = FreePort(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			return nil
		}
	}
	os.RemoveAll(dir)
	return err
}

func (s *RedisServer) start() error {
	log := filepath.Join(s.dir, "redis.log")
	var args []string
	if s.file != "" {
		args = append(args, s.file)
	}
	args = append(args,
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", log,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always",
	)
	args = append(args, s.args...)
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(os.Environ(), s.env...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("servertest: start redis: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	if err := awaitRedis(s.Addr(), cmd.Process.Pid, ended); err != nil {
		_ = cmd.Process.Kill()
		<-ended
		text, _ := os.ReadFile(log)
		return fmt.Errorf("servertest: redis on port %d: %w\n%s", s.port, err, text)
	}

	// A test binary that dies (a panic, a timeout) runs no cleanup; the pipe
	// closes all the same.
	watch := exec.Command("sh", "-c", `cat >/dev/null; kill -9 "$0" 2>/dev/null; rm -rf "$1"`,
		strconv.Itoa(cmd.Process.Pid), s.dir)
	leash, err := watch.StdinPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		_ = cmd.Process.Kill()
		<-ended
		return fmt.Errorf("servertest: watch redis: %w", err)
	}
	s.cmd, s.ended, s.watch, s.leash = cmd, ended, watch, leash
	return nil
}

// awaitRedis returns when the process answers at addr and has loaded its data.
func awaitRedis(addr string, pid int, ended <-chan struct{}) error {
	deadline := time.After(redisStartTimeout)
	for {
		err := pingRedis(addr, pid)
		if err == nil || errors.Is(err, errOtherRedis) {
			return err
		}
		select {
		case <-ended:
			return errors.New("it ended at once")
		case <-deadline:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

var errOtherRedis = errors.New("another server has the port")

func pingRedis(addr string, pid int) error {
	lines, err := askRedis(addr, "INFO server")
	if err == nil && !slices.Contains(lines, "process_id:"+strconv.Itoa(pid)) {
		return errOtherRedis
	}
	return err
}

// askRedis sends one inline command and returns the lines of the answer. An
// error of the server is an error.
func askRedis(addr, command string) (lines []string, err error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, command+"\r\nPING\r\n"); err != nil { // PING marks the end
		return nil, err
	}
	for answer := bufio.NewScanner(conn); answer.Scan(); {
		switch line := answer.Text(); {
		case line == "+PONG":
			return lines, nil
		case strings.HasPrefix(line, "-NOAUTH"):
			return nil, errOtherRedis
		case strings.HasPrefix(line, "-"):
			return nil, errors.New(line)
		default:
			lines = append(lines, line)
		}
	}
	return nil, errors.New("no answer")
}

func redisProgram(t testing.TB) string {
	t.Helper()
	path, err := redisPath()
	return available(t, "redis", path, err)
}

func redisPath() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &missingError{"neither redis-server nor valkey-server is installed"}
}
