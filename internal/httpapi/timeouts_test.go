package httpapi

import (
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// Without one of its own a pause has the timeout for reading, as net/http says, and the
// server is left with none.
func TestTimeoutsAreTaken(t *testing.T) {
	for _, idle := range []time.Duration{0, -1, time.Hour} {
		server := &http.Server{ReadTimeout: time.Minute, IdleTimeout: idle}
		want := timeouts{read: time.Minute, idle: idle}
		if idle == 0 {
			want.idle = time.Minute
		}
		var got timeouts
		if got.take(server); got != want || got.every() != 15*time.Second {
			t.Errorf("%v: %+v, every %v", idle, got, got.every())
		}
		if server.ReadTimeout > 0 || server.WriteTimeout > 0 || server.IdleTimeout >= 0 {
			t.Errorf("the server has %v, %v, %v", server.ReadTimeout, server.WriteTimeout, server.IdleTimeout)
		}
	}
}

// A look that comes when a late request has just been answered takes nothing from the next
// one of its connection.
func TestALookBetweenRequests(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	held := &connection{conn: near, limits: timeouts{read: time.Second, write: time.Second, idle: time.Second}}
	read := func() error { _, err := near.Read(make([]byte, 1)); return err }
	write := func() error { _, err := near.Write([]byte("x")); return err }
	for name, c := range map[string]struct {
		begin func()
		fails func() error
	}{
		"a late request": {func() { held.begins(age()-2*time.Second, false, false) }, write},
		"a late body":    {func() { held.begins(age()-2*time.Second, true, false) }, read},
		"a long pause":   {func() { held.since(age()-2*time.Second, false) }, read},
	} {
		c.begin()
		held.enforce(age())
		if err := c.fails(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s is not cut: %v", name, err)
		}
		held.begins(age(), false, false)
		held.enforce(age())
		go func() { _, _ = far.Read(make([]byte, 1)) }()
		if err := write(); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		go func() { _, _ = far.Write([]byte("x")) }()
		if err := read(); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}
