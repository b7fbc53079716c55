package console

import "sync"

// turns bounds what weighs on the server: how much of it goes on at a time, in all and for one admin.
type turns struct {
	all, each int

	mu  sync.Mutex
	now int
	of  map[string]int // by the names of admins
}

func newTurns(all, each int) *turns { return &turns{all: all, each: each, of: map[string]int{}} }

// take takes a turn, and returns what ends it; nil: there is none now.
func (t *turns) take(admin string) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now >= t.all || t.of[admin] >= t.each {
		return nil
	}
	t.now++
	t.of[admin]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.now--
		if t.of[admin]--; t.of[admin] == 0 {
			delete(t.of, admin)
		}
	}
}
