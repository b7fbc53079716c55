package loglimit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// buffer is what was logged, also by timers.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns what was logged since it was called last.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

func TestRepeatsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		h := New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" {
				return slog.Attr{}
			}
			return a
		}}))
		log := slog.New(h)
		says := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := strings.TrimSuffix(out.take(), "\n"); got != strings.Join(want, "\n") {
				t.Errorf("%s:\n%s\nwant\n%s", when, got, strings.Join(want, "\n"))
			}
		}
		for i := range 1000 {
			log.Warn("down", "path", i)
			log.With("sale", "a").Warn("down", "path", i)
		}
		log.Warn("another trouble")
		log.Error("lost")
		log.Error("lost")
		says("at once", "level=WARN msg=down path=0", "level=WARN msg=down sale=a path=0", `level=WARN msg="another trouble"`,
			"level=ERROR msg=lost", "level=ERROR msg=lost")
		time.Sleep(Interval + time.Second)
		synctest.Wait()
		text := out.take()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "msg=down path=999 repeated=999\n") ||
			!strings.Contains(text, "msg=down sale=a path=999 repeated=999\n") {
			t.Errorf("after an interval:\n%s", text)
		}
		log.Warn("down", "path", "x")
		time.Sleep(Interval)
		synctest.Wait()
		text = out.take()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "level=WARN msg=down path=x repeated=1\n") ||
			!strings.Contains(text, `level=INFO msg="no longer: down" sale=a`) {
			t.Errorf("one trouble is over:\n%s", text)
		}
		log.Warn("down", "path", "y")
		h.Close()
		h.Close()
		says("closed", "level=WARN msg=down path=y repeated=1")
		log.Warn("down")
		log.Warn("down")
		says("after it", "level=WARN msg=down", "level=WARN msg=down")
	})
}

// What is about very many things does not take memory for each.
func TestTroublesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(slog.DiscardHandler)
		h.next = slog.NewTextHandler(new(bytes.Buffer), nil)
		log := slog.New(h)
		for i := range 10 * most {
			log.Warn("down", "sale", i)
		}
		if n := len(h.all.of); n > most+1 {
			t.Errorf("%d troubles are kept", n)
		}
		h.Close()
	})
}
