package method

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

var (
	//go:embed s1.lua
	s1Text string
	//go:embed s1_release.lua
	releaseText string

	s1Script      = rueidis.NewLuaScript(s1Text)
	releaseScript = rueidis.NewLuaScript(releaseText)
)

var s1Method = Method{
	Name: "s1", Title: "S1 hash, EVALSHA",
	Does:  "stock in a hash, taken by a script that was loaded once; the same process stores the order",
	Redis: []string{"stock"},
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &s1{}
		return s, s.open(ctx, on)
	},
}

var lockMethod = Method{
	Name: "s1-lock", Title: "S1 lock",
	Does:  "a lock on one Redis; its holder checks and takes stock on another; who does not get the lock is sent away",
	Redis: []string{"stock", "lock"},
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &locked{}
		return s, s.open(ctx, on)
	},
}

var redlockMethod = Method{
	Name: "s1-redlock", Title: "S1 Redlock",
	Does:  "the same with a lock over three Redis that know nothing of each other, asked in turn",
	Redis: []string{"stock", "lock", "lock", "lock"},
	Open:  lockMethod.Open,
}

// s1 has the stock in one hash.
type s1 struct{ base }

const (
	s1Key   = "item" + good
	lockKey = "product:" + good
	lockTTL = 1500 * time.Millisecond
	lockAsk = 100 * time.Millisecond // how long one of several instances may take to answer
)

func (s *s1) WarmUp(ctx context.Context, units int64) error {
	return do(ctx, s.redis[0], []string{"HSET", s1Key, "total", strconv.FormatInt(units, 10)},
		[]string{"SCRIPT", "LOAD", s1Text})
}

func (s *s1) Buy(ctx context.Context, buyer, _ string) (Answer, error) {
	ordered, err := s.take(ctx, 1)
	if err != nil {
		return "", err
	}
	if ordered == 0 {
		return SoldOut, nil
	}
	return s.sell(ctx, buyer, s.giveBack)
}

func (s *s1) take(ctx context.Context, n int64) (int64, error) {
	return s1Script.Exec(ctx, s.redis[0], []string{s1Key}, []string{strconv.FormatInt(n, 10)}).AsInt64()
}

func (s *s1) giveBack(ctx context.Context) error {
	return do(ctx, s.redis[0], []string{"HINCRBY", s1Key, "orderedNum", "-1"})
}

// locked has the stock in the same hash, which only the holder of a lock reads and
// writes. The lock is on one other Redis, or on several.
type locked struct{ s1 }

func (l *locked) Buy(ctx context.Context, buyer, _ string) (Answer, error) {
	client := l.orderID()
	until, err := l.lock(ctx, client)
	if err != nil {
		return "", err
	}
	if until.IsZero() {
		return Busy, nil
	}
	answer, err := l.check(ctx, until)
	if err = errors.Join(err, l.unlock(ctx, client)); err != nil || answer != Accepted {
		return answer, err
	}
	return l.sell(ctx, buyer, l.giveBack)
}

// check takes a unit if there is one. A caller that has not done so when the lock ends gives up.
func (l *locked) check(ctx context.Context, until time.Time) (Answer, error) {
	ctx, done := context.WithDeadline(ctx, until)
	defer done()
	stock := l.redis[0]
	counts, err := stock.Do(ctx, stock.B().Hmget().Key(s1Key).Field("total", "orderedNum").Build()).AsStrSlice()
	if err != nil {
		return "", err
	}
	total, _ := strconv.ParseInt(counts[0], 10, 64)
	ordered, _ := strconv.ParseInt(counts[1], 10, 64)
	if ordered+1 > total {
		return SoldOut, nil
	}
	return Accepted, do(ctx, stock, []string{"HINCRBY", s1Key, "orderedNum", "1"})
}

// lock returns when the lock ends, or zero if it was not got. It asks several
// instances in turn, and more than half must say yes before the lock has ended.
func (l *locked) lock(ctx context.Context, client string) (until time.Time, err error) {
	start, locks, yes := time.Now(), l.redis[1:], 0
	for _, instance := range locks {
		ok, failed := l.lockOne(ctx, instance, client, len(locks) > 1)
		if ok {
			yes++
		}
		err = errors.Join(err, failed)
	}
	until = start.Add(lockTTL)
	switch {
	case yes > len(locks)/2 && time.Now().Before(until):
		return until, nil
	case len(locks) > 1:
		return time.Time{}, l.unlock(ctx, client)
	}
	return time.Time{}, err
}

func (l *locked) lockOne(ctx context.Context, on rueidis.Client, client string, hurry bool) (bool, error) {
	if hurry {
		var done func()
		ctx, done = context.WithTimeout(ctx, lockAsk)
		defer done()
	}
	err := on.Do(ctx, on.B().Set().Key(lockKey).Value(client).Nx().Px(lockTTL).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

// unlock gives the lock back everywhere. An instance that does not answer is left to
// the lock's end; one alone must answer.
func (l *locked) unlock(ctx context.Context, client string) error {
	locks, wait := l.redis[1:], lockTTL
	if len(locks) > 1 {
		wait = lockAsk
	}
	var err error
	for _, instance := range locks {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), wait)
		err = releaseScript.Exec(ctx, instance, []string{lockKey}, []string{client}).Error()
		done()
	}
	if len(locks) > 1 {
		return nil
	}
	return err
}
