package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
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

// A reader may take its time over a sale; a server that says nothing may not.
func TestFollowSaleTellsSlowFromSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		server := roundTripper(func(r *http.Request) (*http.Response, error) {
			asked++
			body, answer := io.Pipe()
			context.AfterFunc(r.Context(), func() { answer.CloseWithError(r.Context().Err()) })
			go func() {
				for _, state := range []sluice.State{sluice.StateOpen, sluice.StateSoldOut} {
					fmt.Fprintf(answer, "data: {\"state\":%q}\n\n", state)
				}
			}()
			return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
		})
		c := must.Get(New("http://sluice.example", Options{HTTPClient: &http.Client{Transport: server}}))(t)
		var got []sluice.State
		for sale, err := range c.FollowSale(t.Context(), "phone") {
			if err != nil {
				if want := "the server has said nothing for 40s"; !strings.Contains(err.Error(), want) || asked != 1 {
					t.Errorf("%v after %d connections, want %q", err, asked, want)
				}
				break
			}
			got = append(got, sale.State)
			time.Sleep(10 * silence)
		}
		if want := []sluice.State{sluice.StateOpen, sluice.StateSoldOut}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
