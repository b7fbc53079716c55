package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"
)

// supervised is the process of a server, and what ends it: a test, or the end of
// the test binary.
type supervised struct {
	name string // of the program, for errors
	dir  string // holds its log and all else of it
	last string // signal that ends it when the test binary is gone

	supervisor *exec.Cmd // nil while stopped
	orders     io.WriteCloser
	gone       chan struct{} // closed when the last process of the server is gone
	ordered    atomic.Bool   // its end
}

// crash has the log of the last server that ended without an order, for the
// tests that find it gone.
var crash atomic.Value

func (s *supervised) log() string {
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(log)
}

// supervise runs the server and waits for the name of the signal to end it
// with. If the test binary is gone, however it went, there is only an end of
// file: then the folder is removed as well. The server and its children alone
// hold the pipe that is our standard output, so its end of file means that the
// last of them is gone.
const supervise = `
trap '' INT # of the terminal, which is for the test binary
dir=$1; last=$2; shift 2
"$@" </dev/null 3>&1 >>"$dir/log" 2>&1 &
pid=$!
exec >/dev/null
if read -r signal; then
	kill -s "$signal" $pid 2>/dev/null
	wait $pid
else
	kill -s "$last" $pid 2>/dev/null
	wait $pid
	rm -rf "$dir"
fi`

// start starts the server and returns once ask succeeds: ask connects to it. It
// tries more than once: another process may have used the port for a moment.
func (s *supervised) start(line []string, ask func(context.Context) error) (err error) {
	for range 5 {
		if err = s.tryStart(line, ask); err == nil {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

func (s *supervised) tryStart(line []string, ask func(context.Context) error) error {
	cmd := exec.Command("sh", append([]string{"-c", supervise, "supervise", s.dir, s.last}, line...)...)
	cmd.Dir = s.dir // the current one may be closed to the server's user
	orders, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("servertest: %s: %w", s.name, err)
	}
	alive, held, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("servertest: %s: %w", s.name, err)
	}
	cmd.Stdout = held
	err = cmd.Start()
	held.Close()
	if err != nil {
		alive.Close()
		return fmt.Errorf("servertest: %s: %w", s.name, err)
	}
	gone := make(chan struct{})
	s.ordered.Store(false)
	go func() {
		defer close(gone)
		defer alive.Close()
		_, _ = io.Copy(io.Discard, alive) // until its end of file
		if !s.ordered.Load() {
			crash.Store(s.name + " ended by itself; its log:\n" + s.log())
		}
	}()
	s.supervisor, s.orders, s.gone = cmd, orders, gone
	if err := s.await(ask); err != nil {
		return errors.Join(fmt.Errorf("servertest: %s does not start: %w\n%s", s.name, err, s.log()), s.end("KILL"))
	}
	return nil
}

// await asks until the server answers, or has ended.
func (s *supervised) await(ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := ask(ctx)
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

// end ends the server with a signal and waits until it is gone.
func (s *supervised) end(signal string) error {
	if s.supervisor == nil {
		return nil
	}
	s.ordered.Store(true)
	_, err := io.WriteString(s.orders, signal+"\n")
	if err != nil {
		return fmt.Errorf("servertest: %s: %w", s.name, err)
	}
	select {
	case <-s.gone:
	case <-time.After(time.Minute):
		return fmt.Errorf("servertest: %s does not end by SIG%s", s.name, signal)
	}
	_ = s.supervisor.Wait() // returns how the server ended, which we know
	s.supervisor = nil
	return nil
}
