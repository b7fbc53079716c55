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

// A loop comes at its intervals, however long its turns take, and ends with its context.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		begun, at := time.Now(), []time.Duration{}
		for range Every(ctx, time.Second) {
			at = append(at, time.Since(begun))
			time.Sleep(700 * time.Millisecond)
			if len(at) == 3 {
				stop()
			}
		}
		for i, took := range at {
			if took != time.Duration(i)*time.Second {
				t.Errorf("turn %d came after %v", i, took)
			}
		}
		if len(at) != 3 {
			t.Errorf("%d turns", len(at))
		}
	})
}

// A pause ends early when the bell rings, also if it rang before, and with the context.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		bell, begun := NewBell(), time.Now()
		bell.Ring()
		bell.Ring()
		if !Wait(ctx, time.Second, bell) || time.Since(begun) != 0 {
			t.Errorf("a bell that rang: %v", time.Since(begun))
		}
		if !Wait(ctx, time.Second, bell) || time.Since(begun) != time.Second {
			t.Errorf("one that did not: %v", time.Since(begun))
		}
		stop()
		if Wait(ctx, time.Hour, nil) {
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
