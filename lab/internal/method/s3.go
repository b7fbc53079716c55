package method

import (
	"context"
	_ "embed"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

var (
	//go:embed s3.lua
	s3Text   string
	s3Script = rueidis.NewLuaScript(s3Text)
)

var s3Method = Method{
	Name: "s3", Title: "S3 layers and list",
	Does: "a counter of admission on one Redis, read from its replica; stock and a list of orders on another; " +
		"a worker stores the orders and synchronises the counters with the database",
	Redis:  []string{"stock and list", "admission", "replica of admission"},
	Worker: true,
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &s3{ratio: 1.2, interval: time.Second}
		return s, s.open(ctx, on)
	},
}

// s3 stops requests in layers. The first, browsers and CDN, is not here.
type s3 struct {
	base
	ratio    float64       // of requests let through to units
	interval time.Duration // of data control
	started  atomic.Bool   // the flag, which servers cache
}

const (
	s3Count  = good + "_count"
	s3Start  = good + "_start"
	s3Access = good + "_access"
	s3Queue  = "orderList"
)

func (s *s3) stock() rueidis.Client     { return s.redis[0] }
func (s *s3) admission() rueidis.Client { return s.redis[1] }
func (s *s3) replica() rueidis.Client   { return s.redis[2] }

// WarmUp is the data control module's: it warms both Redis, then sets the flag.
func (s *s3) WarmUp(ctx context.Context, units int64) error {
	n := strconv.FormatInt(units, 10)
	return errors.Join(
		do(ctx, s.stock(), []string{"HSET", good, "Total", n, "Booked", "0"}, []string{"SCRIPT", "LOAD", s3Text}),
		do(ctx, s.admission(), []string{"MSET", s3Count, n, s3Access, "0", s3Start, "1"}, []string{"WAIT", "1", "10000"}))
}

func (s *s3) Buy(ctx context.Context, buyer, _ string) (Answer, error) {
	if answer, err := s.admit(ctx); answer != Accepted {
		return answer, err
	}
	n, err := s.take(ctx, 1)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return SoldOut, nil
	}
	return Accepted, do(ctx, s.stock(), []string{"LPUSH", s3Queue, s.orderID() + " " + buyer})
}

// admit is the second layer: what the replica shows refuses nearly all.
func (s *s3) admit(ctx context.Context) (Answer, error) {
	r := s.replica()
	if !s.started.Load() {
		flag, err := r.Do(ctx, r.B().Get().Key(s3Start).Build()).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return "", err
		}
		if flag != "1" {
			return NotOpen, nil
		}
		s.started.Store(true)
	}
	seen, err := r.Do(ctx, r.B().Mget().Key(s3Count, s3Access).Build()).AsIntSlice()
	if err != nil {
		return "", err
	}
	room := int64(math.Ceil(float64(seen[0]) * s.ratio))
	if seen[1] >= room {
		return SoldOut, nil
	}
	a := s.admission()
	access, err := a.Do(ctx, a.B().Incr().Key(s3Access).Build()).AsInt64()
	if err != nil {
		return "", err
	}
	if access > room {
		return SoldOut, nil
	}
	return Accepted, nil
}

func (s *s3) take(ctx context.Context, n int64) (int64, error) {
	return s3Script.Exec(ctx, s.stock(), []string{good}, []string{strconv.FormatInt(n, 10)}).AsInt64()
}

// Work is the order module's and the data control module's.
func (s *s3) Work(ctx context.Context) error {
	go s.control(ctx)
	for ctx.Err() == nil {
		c := s.stock()
		popped, err := c.Do(ctx, c.B().Brpop().Key(s3Queue).Timeout(0).Build()).AsStrSlice()
		if err != nil || len(popped) != 2 {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		id, buyer, _ := strings.Cut(popped[1], " ")
		// What is popped is in this process alone. It tries until the database takes it.
		for s.store(ctx, id, buyer) != nil && pause(ctx, 20*time.Millisecond) {
		}
	}
	return nil
}

// control synchronises at intervals. Orders on their way to the database are not in
// it, so it waits for an interval in which none was: the kindest reading.
func (s *s3) control(ctx context.Context) {
	last := int64(-1)
	for pause(ctx, s.interval) {
		c := s.stock()
		waiting, err := c.Do(ctx, c.B().Llen().Key(s3Queue).Build()).AsInt64()
		if err != nil {
			continue
		}
		booked, err := c.Do(ctx, c.B().Hget().Key(good).Field("Booked").Build()).AsInt64()
		if err != nil {
			continue
		}
		quiet := waiting == 0 && booked == last
		if last = booked; quiet && s.sync(ctx, booked) != nil {
			last = -1
		}
	}
}

// sync has the stock's Redis, and then admission, count the orders of the database.
func (s *s3) sync(ctx context.Context, booked int64) error {
	live, err := s.Stored(ctx)
	if err != nil {
		return err
	}
	if err := do(ctx, s.stock(), []string{"HINCRBY", good, "Booked", strconv.FormatInt(live-booked, 10)}); err != nil {
		return err
	}
	return do(ctx, s.admission(), []string{"SET", s3Access, strconv.FormatInt(live, 10)})
}
