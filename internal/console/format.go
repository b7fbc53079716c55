package console

import (
	"html/template"
	"time"

	"github.com/sluicehq/sluice/api"
)

// When is a time, in UTC and as a machine reads it.
func (v *visit) When(at any) template.HTML {
	var t time.Time
	switch at := at.(type) {
	case time.Time:
		t = at
	case api.Time:
		t = at.Time
	case *api.Time:
		if at != nil {
			t = at.Time
		}
	}
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `">` +
		t.Format("2006-01-02 15:04:05") + ` UTC</time>`)
}

// deref is a number that may be missing.
func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
