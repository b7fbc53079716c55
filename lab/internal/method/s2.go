package method

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// StreamScript is the script of S2. KEYS and ARGV are as its head says.
//
//go:embed s2.lua
var StreamScript string

//go:embed s2_limit.lua
var limitText string

var (
	s2Script    = rueidis.NewLuaScript(StreamScript)
	limitScript = rueidis.NewLuaScript(limitText + StreamScript)
)

var s2Method = Method{
	Name: "s2", Title: "S2 script and stream",
	Does:   "stock, set of buyers and a message in one script; a worker stores the orders one by one",
	Redis:  []string{"stock and stream"},
	Worker: true,
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &s2{}
		return s, s.open(ctx, on)
	},
}

// limitMethod is S2 with the limit that the article proposes against malicious
// clicking. It is not one of Methods: a crowd that asks once does not feel it.
var limitMethod = Method{
	Name: "s2-limit", Title: "S2 with a limit per user",
	Does:   "the same, and the script counts the tries of each user: three a second",
	Redis:  s2Method.Redis,
	Worker: true,
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &s2{tries: 3}
		return s, s.open(ctx, on)
	},
}

// s2 takes a unit and leaves a message in one step. The worker is consumer c1 of
// group g1, which reads one message at a time.
type s2 struct {
	base
	tries int64 // of a user in a second; 0: there is no limit
}

const (
	s2Stock  = "seckill:stock:" + good
	s2Buyers = "seckill:order:" + good
	s2Stream = "stream.order"
	s2Limit  = "user:limit:" // and the user
	s2Block  = 2 * time.Second
	s2Pause  = 20 * time.Millisecond
)

func (s *s2) WarmUp(ctx context.Context, units int64) error {
	return do(ctx, s.redis[0], []string{"SET", s2Stock, strconv.FormatInt(units, 10)},
		[]string{"XGROUP", "CREATE", s2Stream, "g1", "0", "MKSTREAM"}, []string{"SCRIPT", "LOAD", StreamScript})
}

func (s *s2) Buy(ctx context.Context, buyer, _ string) (Answer, error) {
	code, err := s.take(ctx, buyer, s.orderID())
	if err != nil {
		return "", err
	}
	return [...]Answer{Accepted, SoldOut, Bought, Busy}[code], nil
}

func (s *s2) take(ctx context.Context, buyer, order string) (int64, error) {
	keys, args := []string{s2Stock, s2Buyers, s2Stream}, []string{good, buyer, order}
	if s.tries > 0 {
		keys, args = append(keys, s2Limit+buyer), append(args, strconv.FormatInt(s.tries, 10))
		return limitScript.Exec(ctx, s.redis[0], keys, args).AsInt64()
	}
	return s2Script.Exec(ctx, s.redis[0], keys, args).AsInt64()
}

// Work reads what is new, and after an error what it has not acknowledged.
func (s *s2) Work(ctx context.Context) error {
	for ctx.Err() == nil {
		if _, err := s.next(ctx, ">"); err != nil {
			s.pending(ctx)
		}
	}
	return nil
}

// pending stores what was read and not acknowledged, until there is no more.
func (s *s2) pending(ctx context.Context) {
	for more, err := true, error(nil); more && ctx.Err() == nil; {
		if more, err = s.next(ctx, "0"); err != nil {
			more = pause(ctx, s2Pause)
		}
	}
}

// next reads one message, stores its order, and acknowledges it. It returns false if
// there is none.
func (s *s2) next(ctx context.Context, from string) (bool, error) {
	c := s.redis[0]
	command := []string{"XREADGROUP", "GROUP", "g1", "c1", "COUNT", "1"}
	if from == ">" {
		command = append(command, "BLOCK", strconv.FormatInt(s2Block.Milliseconds(), 10))
	}
	read, err := c.Do(ctx, c.B().Arbitrary(append(command, "STREAMS", s2Stream, from)...).Blocking()).AsXRead()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil || len(read[s2Stream]) == 0 {
		return false, err
	}
	message := read[s2Stream][0]
	id, buyer := message.FieldValues["id"], message.FieldValues["userId"]
	if id == "" || buyer == "" {
		return true, errors.New("no order in message " + message.ID + ": " + strings.Join([]string{id, buyer}, ", "))
	}
	if err := s.store(ctx, id, buyer); err != nil {
		return true, err
	}
	return true, do(ctx, c, []string{"XACK", s2Stream, "g1", message.ID})
}
