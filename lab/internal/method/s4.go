package method

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

var (
	//go:embed s4.lua
	s4Text   string
	s4Script = rueidis.NewLuaScript(s4Text)
)

var s4Method = Method{
	Name: "s4", Title: "S4 counter and set",
	Does:  "a counter and a set of buyers in one script; the same process stores the order",
	Redis: []string{"stock"},
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &s4{}
		return s, s.open(ctx, on)
	},
}

// s4 has a counter and a set of who bought, at most one unit each.
type s4 struct{ base }

const (
	s4Stock = good + ":" + activity + ":stock"
	s4Uids  = good + ":" + activity + ":uids"
)

func (s *s4) WarmUp(ctx context.Context, units int64) error {
	return do(ctx, s.redis[0], []string{"SET", s4Stock, strconv.FormatInt(units, 10)}, []string{"SCRIPT", "LOAD", s4Text})
}

func (s *s4) Buy(ctx context.Context, buyer, _ string) (Answer, error) {
	code, err := s.take(ctx, buyer)
	switch {
	case err != nil:
		return "", err
	case code == -1:
		return SoldOut, nil
	case code == 0:
		return Bought, nil
	case code != 1:
		return "", fmt.Errorf("the script returned %d", code)
	}
	// The unit is added back; that the buyer may try again is our kind reading.
	return s.sell(ctx, buyer, func(ctx context.Context) error {
		return do(ctx, s.redis[0], []string{"INCR", s4Stock}, []string{"SREM", s4Uids, buyer})
	})
}

func (s *s4) take(ctx context.Context, buyer string) (int64, error) {
	return s4Script.Exec(ctx, s.redis[0], []string{s4Stock, s4Uids}, []string{buyer}).AsInt64()
}
