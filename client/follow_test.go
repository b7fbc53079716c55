package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// Nothing is skipped and nothing comes twice over trouble, and what cannot pass is the end.
func TestAllEvents(t *testing.T) {
	page := func(next string, ids ...string) http.HandlerFunc {
		p := api.EventPage{Next: next, Events: []api.Event{}}
		for _, id := range ids {
			p.Events = append(p.Events, api.Event{ID: id})
		}
		return answers(p)
	}
	c, s := serve(t, Options{AdminKey: "adm"}, drop, page("e2", "e1", "e2"), problem(503, "unavailable", "", ""),
		page("e2"), page("e3", "e3"), problem(410, api.CodeGone, "", ""))
	var got []string
	for e, err := range c.AllEvents(t.Context(), "e0") {
		switch {
		case err == nil:
			got = append(got, e.ID)
		case errors.As(err, new(*NetworkError)):
			got = append(got, "no answer")
		default:
			got = append(got, CodeOf(err))
		}
	}
	want := []string{"no answer", "e1", "e2", "unavailable", "e3", api.CodeGone}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var after []string
	for _, r := range s.seen {
		after = append(after, r.URL.Query().Get("after"))
	}
	if want := []string{"e0", "e0", "e2", "e2", "e2", "e3"}; !slices.Equal(after, want) {
		t.Errorf("asked after %v, want %v", after, want)
	}
}

// A stream that breaks is opened again, and ends when the sale is gone, or the reader goes.
func TestFollowSale(t *testing.T) {
	states := func(all ...sluice.State) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "retry: 1000\n\n")
			for _, state := range all {
				fmt.Fprintf(w, ": beat\n\ndata: {\"sale_id\":\"phone\",\"state\":%q}\n\n", state)
			}
		}
	}
	steps := []http.HandlerFunc{
		drop, states(sluice.StateUpcoming, sluice.StateOpen), states(sluice.StateSoldOut),
		problem(404, sluice.SaleNotFound.String(), "", ""),
	}
	c, _ := serve(t, Options{}, steps...)
	var got []string
	for sale, err := range c.FollowSale(t.Context(), "phone") {
		switch {
		case err == nil:
			got = append(got, string(sale.State))
		case errors.As(err, new(*NetworkError)):
			got = append(got, "broken")
		default:
			got = append(got, CodeOf(err))
		}
	}
	want := []string{"broken", "upcoming", "open", "broken", "sold_out", "broken", sluice.SaleNotFound.String()}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}

	c, s := serve(t, Options{}, steps[1:]...)
	for range c.FollowSale(t.Context(), "phone") {
		break
	}
	if len(s.seen) != 1 {
		t.Errorf("%d connections after the reader has gone", len(s.seen))
	}
}
