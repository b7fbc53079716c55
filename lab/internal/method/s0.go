package method

import (
	"context"
	_ "embed"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"
)

//go:embed s0.lua
var s0Script string

var s0Method = Method{
	Name: "s0", Title: "S0 hash, EVAL",
	Does:  "stock in a hash, taken by a script whose text is sent each time; the same process stores the order",
	Redis: []string{"stock"},
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &s0{}
		return s, s.open(ctx, on)
	},
}

// s0 has the stock in one hash, with a flag that a task or an administrator sets.
type s0 struct {
	base
	started atomic.Bool // the flag, once it was seen set
}

const s0Key = "seckill:goodsStock:" + good

func (s *s0) WarmUp(ctx context.Context, units int64) error {
	return do(ctx, s.redis[0],
		[]string{"HSET", s0Key, "totalCount", strconv.FormatInt(units, 10), "initStatus", "0", "seckillCount", "0"},
		[]string{"HSET", s0Key, "initStatus", "1"})
}

func (s *s0) Buy(ctx context.Context, buyer, _ string) (Answer, error) {
	if !s.started.Load() {
		flag, err := s.redis[0].Do(ctx, s.redis[0].B().Hget().Key(s0Key).Field("initStatus").Build()).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return "", err
		}
		if flag != "1" {
			return NotOpen, nil
		}
		s.started.Store(true)
	}
	sold, err := s.take(ctx, 1)
	if err != nil {
		return "", err
	}
	if sold == "0" {
		return SoldOut, nil
	}
	return s.sell(ctx, buyer, func(ctx context.Context) error {
		return do(ctx, s.redis[0], []string{"HINCRBY", s0Key, "seckillCount", "-1"})
	})
}

func (s *s0) take(ctx context.Context, n int64) (string, error) {
	return s.redis[0].Do(ctx, s.redis[0].B().Eval().Script(s0Script).Numkeys(1).Key(s0Key).
		Arg(strconv.FormatInt(n, 10)).Build()).ToString()
}
