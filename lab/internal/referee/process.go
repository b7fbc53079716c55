package referee

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

// process is one of a shop's programs. It is started again when it ends by itself,
// as a supervisor would do.
type process struct {
	name, folder, log string
	line, env         []string
	url, tcp          string // what answers when it is ready: a URL with 2xx, or an address

	mu      sync.Mutex
	cmd     *exec.Cmd     // nil while none is wanted
	ended   chan struct{} // of cmd
	leash   io.Closer     // of its watchdog
	crashes int           // ends by itself
}

// startWithin bounds how long a program takes to become ready.
const startWithin = 60 * time.Second

// vacatedWithin bounds how long the children of one that was killed may still answer.
const vacatedWithin = 2 * time.Second

// start returns when the process is ready. If its address answers before it is
// started, another program listens there, which the crowd would ask.
func (p *process) start(ctx context.Context) error {
	for begun := time.Now(); (p.url != "" || p.tcp != "") && p.ask(ctx) == nil; {
		if time.Since(begun) > vacatedWithin || !sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%s: %s answers before it is started: another program is there", p.name, p.url+p.tcp)
		}
	}
	p.mu.Lock()
	err := p.launch()
	crashes := p.crashes
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.ready(ctx, crashes)
}

// launch starts the program. The caller holds mu.
func (p *process) launch() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.line[0], p.line[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.folder, p.env, log, log
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if watch := watchdog(cmd.Process.Pid); watch != nil {
		if p.leash, err = watch.StdinPipe(); err == nil {
			err = watch.Start()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", p.name, err), killGroup(cmd.Process.Pid), cmd.Wait())
		}
		go func() { _ = watch.Wait() }()
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
		p.again(cmd)
	}()
	return nil
}

// again starts a process that has ended by itself once more.
func (p *process) again(was *exec.Cmd) {
	time.Sleep(200 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == was {
		p.crashes++
		p.drop()
		_ = p.launch() // what does not start again is found by those who ask it
	}
}

// drop forgets the process that has ended, and what its children left running. The
// caller holds mu.
func (p *process) drop() {
	if p.leash != nil {
		p.leash.Close()
	}
	p.cmd, p.leash = nil, nil
}

// kill ends the process and its children, and returns when it is gone.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	_ = killGroup(p.cmd.Process.Pid) // it may have ended meanwhile
	<-p.ended
	p.drop()
	return nil
}

// freeze stops the process for a while, or lets it go on.
func (p *process) freeze(with func(pid int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	return with(p.cmd.Process.Pid)
}

// ready waits until the process answers, or has crashed again and again since its
// start.
func (p *process) ready(ctx context.Context, before int) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		err := p.ask(ctx)
		if err == nil {
			return nil
		}
		p.mu.Lock()
		crashes := p.crashes
		p.mu.Unlock()
		if crashes > before+2 || !sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %w%s", p.name, err, p.tail())
		}
	}
}

func (p *process) ask(ctx context.Context) error {
	if p.tcp != "" {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.tcp)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if p.url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", p.url, res.Status)
	}
	return nil
}

// tail is the end of what the process wrote.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) == 1 && len(lines[0]) == 0 {
		return "; it wrote nothing"
	}
	return "; it wrote:\n" + string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}
