package redisledger

import (
	"context"

	"github.com/redis/rueidis"
)

// Called returns what this Redis calls itself: "redis:" and a text that no other has. A
// Redis without one is new, or was emptied: it gets the name that it had as long as this
// handle knows it, or another; made says that this handle has made it up.
func (l *Ledger) Called(ctx context.Context) (name string, made bool, err error) {
	defer func() { wrap(&err, "name") }()
	if err := l.writable(); err != nil {
		return "", false, err
	}
	get := func() (string, error) {
		return l.client.Do(ctx, l.client.B().Get().Key(l.keys.name()).Build()).ToString()
	}
	text, err := get()
	if rueidis.IsRedisNil(err) {
		known := l.called.Load()
		if known == nil {
			fresh := handleName() + handleName()
			l.made.Store(&fresh)
			known = &fresh
		}
		set := l.client.B().Set().Key(l.keys.name()).Value(*known).Nx().Build()
		if err := l.client.Do(ctx, set).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return "", false, err
		}
		text, err = get()
	}
	if err != nil {
		return "", false, err
	}
	l.called.Store(&text)
	own := l.made.Load()
	return "redis:" + text, own != nil && *own == text, nil
}
