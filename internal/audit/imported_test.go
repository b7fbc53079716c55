package audit_test

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// imported returns a world with three imported orders of two buyers, more than the limit
// lets one buyer claim, and with claims of two others.
func imported() *world {
	w := newWorld(12, 1)
	w.claim("b1", "b1", "b2")
	w.drain()
	for i := range w.orders {
		o := &w.orders[i]
		o.Status, o.Terms, o.AcceptedAt = sluice.Paid, sluice.ImportedTerms, opens.Add(-time.Hour)
	}
	w.load()
	w.claim("b3", "b4")
	w.drain()
	return w
}

// Imported orders were sold by another system, before the window and beyond the limit;
// all else counts them, and what is claimed here is judged as ever.
func TestImportedOrders(t *testing.T) {
	r := run(t, imported())
	wantRed(t, r)
	if r.Figures.Store.LiveUnits != 5 {
		t.Errorf("%d units live, want 5", r.Figures.Store.LiveUnits)
	}
	for check, plant := range map[string]func(w *world){
		"I1": func(w *world) { w.sale.Total, w.sale.Cap, w.versions[0].Total, w.reading.Terms.Total = 4, 4, 4, 4 },
		"I2": func(w *world) { w.sale.Taken-- },
		"I3": func(w *world) { w.claim("b2"); w.drain() },
		"I5": func(w *world) { w.orders = w.orders[1:]; w.sale.Taken-- },
		"I8": func(w *world) { w.orders[4].Terms, w.records[4].Terms = sluice.ImportedTerms+1, sluice.ImportedTerms+1 },
	} {
		w := imported()
		plant(w)
		wantRed(t, run(t, w), check)
	}
}
