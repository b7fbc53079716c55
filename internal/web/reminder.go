package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// reminder answers with an event for the buyer's calendar (RFC 5545), which rings five minutes before
// the opening. Its times are UTC: a calendar shows them in its owner's zone.
func (p *Pages) reminder(w http.ResponseWriter, r *http.Request) {
	f, ok := p.find(w, r)
	if !ok {
		return
	}
	const form = "20060102T150405Z"
	ends := f.ClosesAt
	if ends.IsZero() || ends.Sub(f.OpensAt) > time.Hour {
		ends = f.OpensAt.Add(time.Hour)
	}
	lines := []string{
		"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Sluice//Sale//EN", "BEGIN:VEVENT",
		fmt.Sprintf("UID:%s@sluice", f.ID),        // a sale that is postponed moves the event
		"DTSTAMP:" + f.OpensAt.UTC().Format(form), // the same bytes whenever it is asked for
		"DTSTART:" + f.OpensAt.UTC().Format(form), "DTEND:" + ends.UTC().Format(form),
		"SUMMARY:" + calendarText(f.Title),
	}
	if p.opts.PublicURL != "" {
		lines = append(lines, "URL:"+p.opts.PublicURL+"/s/"+string(f.ID))
	}
	lines = append(lines, "BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT5M", "DESCRIPTION:"+calendarText(f.Title),
		"END:VALARM", "END:VEVENT", "END:VCALENDAR")
	w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.ics"`, f.ID))
	w.Header().Set("Cache-Control", keepSale)
	for _, line := range lines {
		_, _ = fmt.Fprint(w, folded(line), "\r\n")
	}
}

var escapes = strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\n", `\n`)

func calendarText(text string) string { return escapes.Replace(text) }

// folded breaks a line so that none has more than 75 bytes, and no character is cut.
func folded(line string) string {
	var b strings.Builder
	width := 0
	for _, r := range line {
		if width+utf8.RuneLen(r) > 75 {
			b.WriteString("\r\n ")
			width = 1
		}
		b.WriteRune(r)
		width += utf8.RuneLen(r)
	}
	return b.String()
}
