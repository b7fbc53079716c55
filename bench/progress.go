package main

import (
	"fmt"
	"io"
	"os"

	"github.com/charmbracelet/x/term"
)

// progress shows what is being done: on a terminal a line that changes,
// elsewhere nothing.
type progress struct{ screen io.Writer }

func newProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(f.Fd()) {
		return &progress{screen: f}
	}
	return &progress{}
}

func (p *progress) say(format string, args ...any) {
	if p.screen != nil {
		fmt.Fprintf(p.screen, "\r\x1b[K"+format, args...)
	}
}

// end removes the line.
func (p *progress) end() {
	if p.screen != nil {
		fmt.Fprint(p.screen, "\r\x1b[K")
	}
}
