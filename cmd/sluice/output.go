package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// terminal returns w as a terminal, or nil when a person does not look at it.
func terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(f.Fd()) {
		return f
	}
	return nil
}

// usualColumns is the width of a terminal that does not say its own, and of help in a file.
const usualColumns = 80

// columns is the width of the terminal that w is, or 0 when a person does not look at it.
func columns(w io.Writer) int {
	screen := terminal(w)
	if screen == nil {
		return 0
	}
	width, _, _ := term.GetSize(screen.Fd()) // 0 with an error
	return cmp.Or(width, usualColumns)
}

// printJSON prints one object, on one line when a program reads it.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if a.columns > 0 {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// printList prints v as JSON, or its items as a table.
func printList[T any](a *app, v any, headers []string, items []T, row func(*T) []string) error {
	rows := make([][]string, len(items))
	for i := range items {
		rows[i] = row(&items[i])
	}
	return a.printTable(v, headers, rows)
}

// printTable prints v as JSON, or rows in columns. Columns whose header starts with
// '>' are numbers, set to the right.
func (a *app) printTable(v any, headers []string, rows [][]string) error {
	if a.json {
		return a.printJSON(v)
	}
	right := make([]bool, len(headers))
	names := make([]string, len(headers))
	for i, h := range headers {
		names[i], right[i] = strings.CutPrefix(h, ">")
		if a.columns > 0 {
			names[i] = lipgloss.NewStyle().Bold(true).Render(names[i])
		}
	}
	for _, row := range rows {
		for i := range row {
			row[i] = clean(row[i])
		}
	}
	a.printColumns(append([][]string{names}, rows...), right)
	return nil
}

// printColumns prints lines whose cells are aligned by the width they take on
// a screen, Chinese titles too. On a terminal, columns that do not fit go below the
// others, and only the last one, which may be a sentence, is broken.
func (a *app) printColumns(lines [][]string, right []bool) {
	width := map[int]int{}
	for _, cells := range lines {
		for i, cell := range cells {
			width[i] = max(width[i], lipgloss.Width(cell))
		}
	}
	begin, below := make([]int, len(width)), make([]bool, len(width))
	for i := 1; i < len(width); i++ {
		begin[i] = begin[i-1] + width[i-1] + 2
		needed := width[i]
		if i == len(width)-1 {
			needed = min(needed, 16)
		}
		if a.columns > 0 && begin[i]+needed > a.columns {
			begin[i], below[i] = 4, true
		}
	}
	for _, cells := range lines {
		var b strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", width[i]-lipgloss.Width(cell))
			cell = hang(cell, begin[i], a.columns)
			if i < len(right) && right[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			switch {
			case i == 0:
			case below[i]:
				b.WriteString("\n" + strings.Repeat(" ", begin[i]))
			default:
				b.WriteString("  ")
			}
			b.WriteString(cell)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			line = strings.TrimRight(line, " ")
			if a.columns > 0 {
				_, _ = lipgloss.Fprintln(a.stdout, line) // as many colours as it has
			} else {
				fmt.Fprintln(a.stdout, line)
			}
		}
	}
}

// printRecord prints v as JSON, or its fields.
func (a *app) printRecord(v any, fields [][2]string) error {
	if a.json {
		return a.printJSON(v)
	}
	a.printFields(fields)
	return nil
}

// printFields prints one thing, a field a line; what is empty is left out.
func (a *app) printFields(fields [][2]string) {
	var lines [][]string
	for _, f := range fields {
		if f[1] != "" {
			lines = append(lines, []string{f[0], clean(f[1])})
		}
	}
	a.printColumns(lines, nil)
}

// say writes a line for the person who waits, on stderr, unless --json.
func (a *app) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// sayMore names the cursor of the next page, if there is one.
func (a *app) sayMore(cursor string) {
	if cursor != "" {
		a.say("more with --cursor %s", cursor)
	}
}

// clean keeps what others have written from steering the terminal, and from reversing
// what stands beside it. A joiner within an emoji or a word stays.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' {
			return '?'
		}
		return r
	}, text)
}

// timeOrNone is empty while there is no such time.
func timeOrNone(t *api.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

// local is a time for people: on a terminal in their zone; elsewhere as the API writes it, since files travel.
func (a *app) local(t *api.Time) string {
	if t == nil || a.columns == 0 {
		return timeOrNone(t)
	}
	return t.In(a.started.Location()).Format(time.RFC3339)
}

// short is local for tables: today's times without the date, on a terminal.
func (a *app) short(t *api.Time) string {
	if t == nil || a.columns == 0 {
		return timeOrNone(t)
	}
	switch at := t.In(a.started.Location()); {
	case at.Format(time.DateOnly) == a.started.Format(time.DateOnly):
		return at.Format(time.TimeOnly)
	case at.Year() == a.started.Year():
		return at.Format("01-02 15:04")
	default:
		return at.Format("2006-01-02 15:04")
	}
}

// limit writes a number that may be absent.
func limit(n *int64) string {
	if n == nil {
		return "none"
	}
	return figures.Thousands(*n)
}

// watch shows a line that changes until stop is called: live on a terminal, a
// single line at the end elsewhere, nothing with --json.
func (a *app) watch(line func() string) (stop func()) {
	if a.json {
		return func() {}
	}
	screen := terminal(a.stderr)
	if screen == nil {
		return func() { fmt.Fprintln(a.stderr, strings.TrimSpace(line())) }
	}
	draw := func() {
		// A wrapped line could not be drawn over.
		text := lipgloss.NewStyle().MaxWidth(columns(screen) - 1).Render(line())
		_, _ = lipgloss.Fprint(screen, "\r\x1b[K"+text)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			draw()
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		draw()
		fmt.Fprintln(screen)
	}
}

// bar draws how much of a whole is done, on terminals.
func (a *app) bar(done, whole int64) string {
	const width = 12 // all of the line must fit into 79 columns
	if terminal(a.stderr) == nil || whole <= 0 {
		return ""
	}
	full := int(min(done, whole) * width / whole)
	style := lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	return style.Render(strings.Repeat("━", full)) +
		lipgloss.NewStyle().Faint(true).Render(strings.Repeat("━", width-full)) + " "
}

// rush lets a crowd loose, and shows it.
func (a *app) rush(ctx context.Context, o loadgen.Options) (*loadgen.Crowd, *loadgen.Outcome, error) {
	p := &loadgen.Progress{}
	o.Progress = p
	crowd, err := loadgen.New(o)
	if err != nil {
		return nil, nil, usage(err)
	}
	stop := func() {}
	if len(o.Tokens) == 0 {
		stop = a.watch(func() string {
			n := p.Minted.Load()
			return fmt.Sprintf("  tokens   %s%s of %s", a.bar(n, int64(o.Buyers)), figures.Thousands(n),
				figures.Thousands(o.Buyers))
		})
	}
	err = crowd.Prepare(ctx)
	stop()
	if err != nil {
		return nil, nil, err
	}
	if o.Tickets != nil {
		stop = a.watch(func() string {
			n := p.Tickets.Load()
			return fmt.Sprintf("  tickets  %s%s of %s buyers%s", a.bar(n, int64(o.Buyers)), figures.Thousands(n),
				figures.Thousands(o.Buyers), ahead(o.Tickets, n))
		})
		err = crowd.GetTickets(ctx)
		stop()
		if err != nil {
			return nil, nil, err
		}
	}
	start := time.Now()
	if o.Tickets != nil && opening(o.Tickets).After(start) {
		start = opening(o.Tickets)
	}
	stop = a.watch(func() string {
		if wait := time.Until(start); wait > 0 {
			return "  answers  the sale opens in " + wait.Round(time.Second).String()
		}
		n, whole := p.Decided.Load(), p.Planned.Load()
		rate := float64(n) / max(time.Since(start).Seconds(), 0.001)
		of := ""
		if whole > 0 {
			of = " of " + figures.Thousands(whole)
		}
		return fmt.Sprintf("  answers  %s%s%s, %s accepted, %s a second", a.bar(n, whole), figures.Thousands(n), of,
			figures.Thousands(p.Accepted.Load()), figures.Thousands(int64(rate)))
	})
	out, err := crowd.Rush(ctx)
	stop()
	return crowd, out, err
}

// opening is when a sale with tickets opens, by this machine's clock.
func opening(e *loadgen.TicketWindow) time.Time { return e.Opens.Add(-e.Ahead) }

// ahead says when tickets are handed out, while none has been.
func ahead(e *loadgen.TicketWindow, asked int64) string {
	wait := time.Until(e.TicketsFrom.Add(-e.Ahead))
	if asked > 0 || wait <= 0 {
		return ""
	}
	return ", handed out in " + wait.Round(time.Second).String()
}
