package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A loop comes at its intervals and when it is woken, and ends with its context.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		bell, ticks, begun := NewBell(), 0, time.Now()
		go func() {
			time.Sleep(2500 * time.Millisecond)
			bell.Ring()
			synctest.Wait()
			stop()
		}()
		for range Ticks(ctx, time.Second, bell) {
			ticks++
		}
		if ticks != 3 || time.Since(begun) != 2500*time.Millisecond {
			t.Errorf("%d in %v", ticks, time.Since(begun))
		}
		n := 0
		for range Every(t.Context(), time.Second) {
			if n++; n == 3 {
				break
			}
		}
		if took := time.Since(begun); took != 4*time.Second { // at 2.5 s, 3 s and 4 s
			t.Errorf("3 times, the first at once, until %v", took)
		}
	})
}

// A loop that finds nothing looks less often, down to a third; what it finds, or
// the bell, makes it as quick as before. It comes at multiples of its pause.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		rest, bell := Rest{Every: time.Second}, NewBell()
		for i, step := range []struct {
			found, rings bool
			want         time.Duration
		}{
			{want: 1},              // until 1 s
			{want: 1},              // 2 s
			{want: 4},              // 6 s: that 3 s is a multiple of 3 s is too soon
			{want: 3},              // 9 s
			{rings: true, want: 0}, // 9 s
			{found: true, want: 1}, // 10 s
			{want: 2},              // 12 s
		} {
			if step.rings {
				bell.Ring()
			}
			begun := time.Now()
			if !rest.Wait(ctx, step.found, bell) || time.Since(begun) != step.want*time.Second {
				t.Errorf("pause %d: %v, want %d s", i, time.Since(begun), step.want)
			}
		}
		stop()
		if rest.Wait(ctx, true, nil) {
			t.Error("the context has ended")
		}
	})
}

// What fails again and again is logged once, and once more when it works again.
func TestTrouble(t *testing.T) {
	var out bytes.Buffer
	trouble := Trouble{Log: slog.New(slog.NewTextHandler(&out, nil)), Begins: "it fails", Ceases: "it works again"}
	for _, err := range []error{nil, errors.New("down"), errors.New("down"), nil, nil} {
		trouble.Note(err, "what", "thing")
	}
	if text := out.String(); strings.Count(text, "it fails") != 1 || strings.Count(text, "it works again") != 1 ||
		strings.Count(text, "what=thing") != 2 || strings.Count(text, "error=down") != 1 {
		t.Error(text)
	}
}
