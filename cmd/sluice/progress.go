package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"

	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

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
		text := line()
		if width, _, err := term.GetSize(screen.Fd()); err == nil && width > 1 {
			text = lipgloss.NewStyle().MaxWidth(width - 1).Render(text) // a wrapped line could not be drawn over
		}
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
	const width = 28
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
