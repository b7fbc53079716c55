package referee

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// shop is a System with faults in known numbers. Its zero value is a right shop:
// one unit to a buyer, equal answers to equal keys.
type shop struct {
	oversell, undersell, lose, twice, change, strangers, promiseRefused int

	storeAfter time.Duration                  // orders appear so long after the promise
	keyless    bool                           // a repeat is a new request, and buyers may have many units
	freed      time.Duration                  // half of the units are for sale only so long after the start
	first      func(buyer, key string) Answer // if it says anything, the shop says this
	orders     func() error

	mu      *sync.Mutex
	begin   time.Time
	units   int
	taken   int
	n       int
	answers map[string]Answer // by key
	bought  map[string]Answer // by buyer
	rows    []row
}

type row struct {
	Order
	from time.Time // when it is listed
}

func (s *shop) Start(context.Context) error { return nil }
func (s *shop) Close() error                { return nil }

func (s *shop) Reset(_ context.Context, units int) error {
	s.mu, s.units, s.begin = &sync.Mutex{}, units, time.Now()
	s.answers, s.bought = map[string]Answer{}, map[string]Answer{}
	for i := range s.strangers {
		s.taken++
		s.store(Order{ID: fmt.Sprint("s", i), Buyer: fmt.Sprint("stranger-", i)})
	}
	return nil
}

func (s *shop) store(o Order) { s.rows = append(s.rows, row{o, time.Now().Add(s.storeAfter)}) }

func (s *shop) Orders(context.Context) ([]Order, error) {
	if s.orders != nil {
		if err := s.orders(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Order
	for _, r := range s.rows {
		if !time.Now().Before(r.from) {
			all = append(all, r.Order)
		}
	}
	return all, nil
}

func (s *shop) Buy(ctx context.Context, buyer, key string) (Answer, error) {
	if !sleep(ctx, 5*time.Millisecond) {
		return Answer{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != nil {
		if a := s.first(buyer, key); a.Kind != Unknown {
			return a, nil
		} else if a.Said != "" {
			return Answer{}, errors.New(a.Said)
		}
	}
	if a, ok := s.answers[key]; ok && !s.keyless {
		return a, nil
	}
	if _, ok := s.bought[buyer]; ok && !s.keyless {
		return Answer{Kind: Refused, Said: "already"}, nil
	}
	forSale := s.units + s.oversell - s.undersell
	if time.Since(s.begin) < s.freed {
		forSale = s.units / 2
	}
	if s.taken >= forSale {
		return Answer{Kind: SoldOut}, nil
	}
	s.n++
	a := Answer{Kind: Promise, Order: fmt.Sprint("o", s.n)}
	o := Order{ID: a.Order, Buyer: buyer}
	s.answers[key], s.bought[buyer] = a, a
	switch {
	case s.lose > 0: // and the unit is sold once more
		s.lose--
		return a, nil
	case s.twice > 0 && s.taken+2 <= forSale:
		s.twice--
		s.taken++
		s.store(Order{ID: a.Order + "-again", Buyer: buyer})
	case s.change > 0:
		s.change--
		o.ID += "-other"
	case s.promiseRefused > 0:
		s.promiseRefused--
		a = Answer{Kind: Refused}
		s.answers[key] = a
	}
	s.taken++
	s.store(o)
	return a, nil
}
