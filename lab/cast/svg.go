package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

const (
	longestPause = time.Second
	shownAtEnd   = 5 * time.Second
	shortest     = 40 * time.Millisecond // what is replaced sooner is not drawn

	charWidth, lineHeight, fontSize = 8.4, 17, 14
	margin, titleBar                = 16, 32
)

// The classes are attributes of text: a colour of the terminal, bold, faint. Text without
// animation, and for readers who want no motion, is the last screen.
const style = `<style>
	text { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3;
		white-space: pre }
	.c1 { fill: #ff7b72 } .c2 { fill: #56d364 } .c3 { fill: #e3b341 } .c4 { fill: #79c0ff } .c5 { fill: #d2a8ff }
	.c6 { fill: #56d4dd } .bold { font-weight: 700 } .faint { fill-opacity: .55 }
	g { visibility: hidden } .last { visibility: visible }
	@media (prefers-reduced-motion: no-preference) { g { animation: %.2fs step-end infinite } }
%s</style>
`

// span is what a row of the terminal showed, and from when to when.
type span struct {
	row      int
	runs     string // its text as SVG
	from, to time.Duration
}

// draw plays a recording through a terminal and returns an SVG that repeats it.
func draw(recording []chunk) []byte {
	spans, end := play(recording)
	end += shownAtEnd
	height := 0
	var frames, texts strings.Builder
	for i, s := range spans {
		percent := func(at time.Duration) float64 { return 100 * float64(at) / float64(end) }
		class, hide := "last", ""
		if s.to != 0 {
			class, hide = "", fmt.Sprintf("%.2f%%{visibility:hidden}", percent(s.to))
		} else {
			height = max(height, titleBar+(s.row+1)*lineHeight+margin)
		}
		fmt.Fprintf(&frames, "@keyframes k%d{0%%{visibility:hidden}%.2f%%{visibility:visible}%s}\n",
			i, percent(s.from), hide)
		fmt.Fprintf(&texts, `<g class="%s" style="animation-name:k%d" transform="translate(%d %d)">%s</g>`+"\n",
			class, i, margin, titleBar+s.row*lineHeight+fontSize, s.runs)
	}
	width := int(columns*charWidth) + 2*margin
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+"\n", width, height)
	fmt.Fprintf(&svg, style, fontSize, end.Seconds(), frames.String())
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, fill := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&svg, `<circle cx="%d" cy="16" r="5" fill="%s"/>`+"\n", margin+5+18*i, fill)
	}
	fmt.Fprintf(&svg, "%s</svg>\n", texts.String())
	return svg.Bytes()
}

// play returns what each row showed, in the order of time, and when the last of it appeared. A span that lasts to the
// end has no end of its own.
func play(recording []chunk) (spans []span, now time.Duration) {
	terminal := vt.NewEmulator(columns, rows)
	go io.Copy(io.Discard, terminal) // its answers to questions of the command
	defer terminal.Close()
	shown := map[int]int{} // by row: the span
	for i, c := range recording {
		if i > 0 {
			now += min(c.At-recording[i-1].At, longestPause)
		}
		terminal.Write(c.Text)
		if i+1 < len(recording) && recording[i+1].At-c.At < shortest {
			continue
		}
		for row := range rows {
			runs := line(terminal, row)
			before, ok := shown[row]
			if ok && spans[before].runs == runs || !ok && runs == "" {
				continue
			}
			if ok {
				spans[before].to = now
			}
			delete(shown, row)
			if runs != "" {
				shown[row], spans = len(spans), append(spans, span{row: row, runs: runs, from: now})
			}
		}
	}
	return spans, now
}

// line returns a row of the terminal as SVG: a text for each run of cells of one style.
func line(terminal *vt.Emulator, row int) string {
	var all, run strings.Builder
	begin, class := 0, ""
	flush := func(column int) {
		if strings.TrimSpace(run.String()) != "" {
			fmt.Fprintf(&all, `<text x="%.1f" textLength="%.1f" class="%s">%s</text>`,
				float64(begin)*charWidth, float64(column-begin)*charWidth, class, html.EscapeString(run.String()))
		}
		run.Reset()
		begin = column
	}
	end := columns
	for end > 0 && strings.TrimSpace(terminal.CellAt(end-1, row).Content) == "" {
		end--
	}
	for column := range end {
		cell := terminal.CellAt(column, row)
		if its := classes(cell.Style); its != class {
			flush(column)
			class = its
		}
		run.WriteString(cell.Content) // nothing, in the second column of a wide character
	}
	flush(end)
	return all.String()
}

// classes are the attributes and the colour of a style, if it is one of the terminal's first eight.
func classes(style uv.Style) string {
	var all []string
	if colour, ok := style.Fg.(ansi.BasicColor); ok {
		all = append(all, fmt.Sprintf("c%d", colour%8))
	}
	if style.Attrs&uv.AttrBold != 0 {
		all = append(all, "bold")
	}
	if style.Attrs&uv.AttrFaint != 0 {
		all = append(all, "faint")
	}
	return strings.Join(all, " ")
}
