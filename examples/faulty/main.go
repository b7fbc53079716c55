// Command faulty is a small shop that does wrong in known numbers. The referee
// must find exactly these; examples/faulty/referee.json says how it asks.
//
// Its memory is its only store. It knows its buyers' keys, so nothing but its
// planted faults is wrong with it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var (
	listen     = flag.String("listen", "127.0.0.1:8090", "address")
	oversell   = flag.Int("oversell", 0, "sell so many units more than there are")
	undersell  = flag.Int("undersell", 0, "say \"sold out\" while so many units are left")
	lose       = flag.Int("lose", 0, "forget so many promised orders, and sell their units to others")
	twice      = flag.Int("twice", 0, "give so many buyers two orders, two units")
	change     = flag.Int("change", 0, "store so many orders under another id than was promised")
	unasked    = flag.Int("unasked", 0, "store so many orders of people who never asked, one unit each")
	storeAfter = flag.Duration("store-after", 0, "store orders so long after the promise")
)

// The codes of answers. All have HTTP status 200, as shops of this kind do it.
const (
	yours   = 0
	soldOut = 1
	already = 2
)

type answer struct {
	Code  int    `json:"code"`
	Order string `json:"order,omitempty"`
}

type order struct {
	ID    string `json:"id"`
	Buyer string `json:"buyer"`
}

// shop is one sale. A new one begins without orders, and with all its faults to
// come.
type shop struct {
	mu      sync.Mutex
	forSale int
	given   int               // ids
	byKey   map[string]answer // the same key gets the same answer
	buyers  map[string]bool   // who have been promised a unit
	orders  []order

	lose, twice, change int // faults to come
}

func newShop(units int) *shop {
	s := &shop{
		forSale: units + *oversell - *undersell, byKey: map[string]answer{}, buyers: map[string]bool{},
		lose: *lose, twice: *twice, change: *change,
	}
	for i := range *unasked {
		s.forSale--
		s.store(order{ID: s.newID(), Buyer: fmt.Sprintf("passer-by-%d", i)})
	}
	return s
}

func (s *shop) newID() string {
	s.given++
	return fmt.Sprintf("order-%d", s.given)
}

// store makes an order visible, now or later. The caller holds mu or is alone.
func (s *shop) store(o order) {
	if *storeAfter == 0 {
		s.orders = append(s.orders, o)
		return
	}
	time.AfterFunc(*storeAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.orders = append(s.orders, o)
	})
}

func (s *shop) buy(buyer, key string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.byKey[key]; ok {
		return a
	}
	if s.buyers[buyer] {
		return answer{Code: already}
	}
	if s.forSale <= 0 {
		return answer{Code: soldOut}
	}
	a := answer{Code: yours, Order: s.newID()}
	s.byKey[key], s.buyers[buyer] = a, true
	o := order{ID: a.Order, Buyer: buyer}
	switch {
	case s.lose > 0:
		s.lose--
		return a // without an order, and with its unit still for sale
	case s.twice > 0 && s.forSale >= 2:
		s.twice--
		s.forSale--
		s.store(order{ID: s.newID(), Buyer: buyer})
	case s.change > 0:
		s.change--
		o.ID = s.newID()
	}
	s.forSale--
	s.store(o)
	return a
}

func (s *shop) list() []order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]order{}, s.orders...)
}

func main() {
	flag.Parse()
	var mu sync.Mutex
	sale := newShop(0)
	current := func() *shop {
		mu.Lock()
		defer mu.Unlock()
		return sale
	}
	http.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /sale", func(w http.ResponseWriter, r *http.Request) {
		units, err := strconv.Atoi(r.FormValue("units"))
		if err != nil {
			http.Error(w, "units: want a number", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		sale = newShop(units)
	})
	http.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		var wish struct{ Buyer, Key string }
		if err := json.NewDecoder(r.Body).Decode(&wish); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(current().buy(wish.Buyer, wish.Key))
	})
	http.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"orders": current().list()})
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}
