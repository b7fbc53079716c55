package redisledger

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// takeable is how long a ledger that has got a name may take the sales of one that is
// lost: long enough for servers that start again meanwhile, and not for a Redis that a
// server was given by mistake, days later.
const takeable = 10 * time.Minute

// Name returns the name of this Redis: "redis:" and a text that no other has. A
// Redis without one is new, or was emptied: it gets the name that it had as long as this
// handle knows it, or another; made says that one was made up in the last ten minutes. Where
// another type of key has taken the name's place, only who knows it writes it again.
func (l *Ledger) Name(ctx context.Context) (name string, made bool, err error) {
	defer func() { wrap(&err, "name") }()
	if err := l.writable(); err != nil {
		return "", false, err
	}
	get := func() (string, error) {
		return l.client.Do(ctx, l.client.B().Get().Key(l.keys.name()).Build()).ToString()
	}
	text, err := get()
	known := l.redisName.Load()
	if isWrongType(err) && known != nil {
		if err := l.client.Do(ctx, l.client.B().Set().Key(l.keys.name()).Value(*known).Build()).Error(); err != nil {
			return "", false, err
		}
		text, err = get()
	}
	if rueidis.IsRedisNil(err) {
		if known == nil {
			fresh := handleName() + handleName()
			known = &fresh
			made := l.client.B().Set().Key(l.keys.made()).Value("1").ExSeconds(int64(takeable.Seconds())).Build()
			if err := l.client.Do(ctx, made).Error(); err != nil {
				return "", false, err
			}
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
	l.redisName.Store(&text)
	made, err = l.client.Do(ctx, l.client.B().Exists().Key(l.keys.made()).Build()).AsBool()
	return "redis:" + text, made, err
}
