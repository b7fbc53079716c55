package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// The recording of `sluice demo --buyers 2000 --stock 100` becomes a picture that is well-formed XML, small enough, and
// shows its first line and its last to readers who see no motion.
func TestDraw(t *testing.T) {
	var recording []chunk
	must.Succeed(t, json.Unmarshal(must.Get(os.ReadFile("testdata/demo.json"))(t), &recording))
	svg := draw(recording)
	if len(svg) > maxSize {
		t.Errorf("%d bytes", len(svg))
	}
	last, inLast, text := "", false, xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := text.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "g" {
				inLast = token.Attr[0].Value == "last"
			}
		case xml.CharData:
			if inLast {
				last += string(token)
			}
		}
	}
	for _, want := range []string{"$ sluice demo", "got one", "No oversell", "every promise became an order."} {
		if !strings.Contains(last, want) {
			t.Errorf("the last screen has no %q:\n%s", want, last)
		}
	}
	if n := strings.Count(last, "of 2,100"); n != 1 {
		t.Errorf("the last screen has %d states of a progress bar:\n%s", n, last)
	}
}

// A long pause is shortened; what is replaced at once is never shown; a line ends when it is replaced or erased.
func TestPlay(t *testing.T) {
	const half = time.Second / 2
	spans, end := play([]chunk{
		{0, []byte("one")},
		{time.Minute, []byte("\r\x1b[K")},
		{time.Minute + 1, []byte("t\xc3")},
		{time.Minute + 2, []byte("\xb6")},
		{time.Minute + half, []byte("\r\n\x1b[36;1m<")},
		{time.Minute + 2*half, []byte("\x1b[A\r\x1b[K")},
		{time.Minute + 3*half, []byte("\r\n")},
	})
	want := []span{
		{0, `<text x="0.0" textLength="25.2" class="">one</text>`, 0, time.Second + 2},
		{0, `<text x="0.0" textLength="16.8" class="">tö</text>`, time.Second + 2, time.Second + 2*half},
		{1, `<text x="0.0" textLength="8.4" class="c6 bold">&lt;</text>`, time.Second + half, 0},
	}
	if end != time.Second+3*half || !slices.Equal(spans, want) {
		t.Errorf("until %v: %+v", end, spans)
	}
}
