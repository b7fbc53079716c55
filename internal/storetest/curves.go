package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// Stretches are kept until their sale is archived or deleted. One that grows takes its own place.
func testStretches(t *testing.T, db Database) {
	s, ctx := db.Open(t), t.Context()
	create(t, s, aSale("phones", 10))
	create(t, s, aSale("lamps", 10))
	at := time.Now().UTC().Truncate(time.Second)
	stretch := func(sale sluice.SaleID, node string, after time.Duration, figures string) port.Stretch {
		return port.Stretch{Sale: sale, Node: node, From: at.Add(after), Figures: []byte(figures)}
	}
	first, other := stretch("phones", "a", 0, "\x00\xff"), stretch("phones", "b", 0, "")
	later, lamp := stretch("phones", "a", time.Minute, "x"), stretch("lamps", "a", 0, "y")
	must.Succeed(t, s.KeepStretches(ctx, []port.Stretch{later, first, other, lamp, stretch("unknown", "a", 0, "z")}))
	first.Figures, first.Ended = []byte("\x00\xff\x01"), true
	must.Succeed(t, s.KeepStretches(ctx, []port.Stretch{first}))
	want := func(sale sluice.SaleID, from time.Time, stretches ...port.Stretch) {
		t.Helper()
		got := must.Get(s.Stretches(ctx, sale, from))(t)
		for i := range got {
			if len(got[i].Figures) == 0 {
				got[i].Figures = []byte{}
			}
		}
		if diff := cmp.Diff(stretches, got); diff != "" {
			t.Errorf("of %s from %s (-want +got):\n%s", sale, from, diff)
		}
	}
	want("phones", time.Time{}, first, other, later)
	want("phones", at.Add(time.Second), later)
	want("lamps", time.Time{}, lamp)
	want("unknown", time.Time{})

	must.Succeed(t, s.DeleteSale(ctx, "lamps", 1))
	want("lamps", time.Time{})
	must.Get(s.ChangeSale(ctx, "phones", func(sale *sluice.Sale) error {
		sale.OpensAt, sale.ClosesAt = at.Add(-48*time.Hour), at.Add(-24*time.Hour)
		return nil
	}))(t)
	if archived, err := s.Archive(ctx, "phones"); err != nil || !archived {
		t.Fatal(archived, err)
	}
	want("phones", time.Time{})
	must.Succeed(t, s.KeepStretches(ctx, []port.Stretch{first}))
	want("phones", time.Time{})

	for name, bad := range map[string]port.Stretch{
		"no server":      stretch("phones", "", 0, "x"),
		"half a second":  stretch("phones", "a", time.Millisecond, "x"),
		"too many bytes": stretch("phones", "a", 0, string(make([]byte, 1<<17))),
	} {
		if err := s.KeepStretches(ctx, []port.Stretch{bad}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
