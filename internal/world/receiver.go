package world

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/sluicehq/sluice/api"
)

// Receiver is where the shop receives webhooks. It is outside the bubble, and is reached by a connection of its
// own for each request: an idle one would keep the bubble's clock from going on.
type Receiver struct {
	URL string

	mu      sync.Mutex
	got     []api.Event
	refused map[string]bool // those that were refused once
}

// ServeHTTP refuses every eighth message the first time.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Connection", "close")
	body, err := io.ReadAll(request.Body)
	id := request.Header.Get("Webhook-Id")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refused = map[string]bool{}
	}
	if err != nil || len(r.got)%8 == 7 && !r.refused[id] {
		r.refused[id] = true
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	var e api.Event
	if err := json.Unmarshal(body, &e); err != nil {
		panic(err)
	}
	r.got = append(r.got, e)
}

// events are the events that it took, in the order in which they came.
func (r *Receiver) events() []api.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}
