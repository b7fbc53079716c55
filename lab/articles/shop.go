package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/method"
	"github.com/sluicehq/sluice/lab/internal/referee"
)

// shop is a method as the referee sees it: a server, a worker if the method has one,
// and what they work with.
type shop struct {
	stage   *stage
	m       method.Method
	fsync   string
	replica *servertest.RedisServer // of the stock, if there is to be one
	lagging bool
	warmed  func(context.Context) error // happens between warm-up and sale; may be nil

	t            *turn
	server, work *process

	mu    sync.Mutex
	sizes []size // of the stock's append-only file
	stop  func()
}

// size is how long a file was at a moment.
type size struct {
	at    time.Time
	bytes int64
}

func (s *shop) Start(ctx context.Context) (err error) {
	if s.t, err = s.stage.servers(ctx, s.m, s.fsync); err != nil {
		return err
	}
	if s.lagging {
		s.replica, err = servertest.NewRedis(s.stage.dir, "--appendfsync", s.fsync, "--replicaof",
			"127.0.0.1 "+portOf(s.t.redis[0].Addr()))
		if err != nil {
			return err
		}
	}
	port, err := servertest.FreePort()
	if err != nil {
		return err
	}
	c := child{Method: s.m.Name, On: s.t.on}
	c.Listen = "127.0.0.1:" + strconv.Itoa(port)
	s.server = &process{child: c}
	if err := s.server.start(ctx); err != nil || !s.m.Worker {
		return err
	}
	c.Listen = ""
	s.work = &process{child: c}
	return nil // it starts when its queue is there
}

func portOf(addr string) string { return addr[len("127.0.0.1:"):] }

func (s *shop) Reset(ctx context.Context, units int) error {
	var warm string
	query := url.Values{"units": {strconv.Itoa(units)}}
	if err := s.server.ask(ctx, http.MethodPost, "/warm", query, &warm); err != nil {
		return err
	}
	if s.replica != nil {
		if err := s.awaitReplica(); err != nil {
			return err
		}
	}
	if len(s.t.redis) > 0 {
		if s.fsync == "everysec" {
			time.Sleep(1500 * time.Millisecond) // what was warmed up is on disk when the sale begins
		}
		ctx, cancel := context.WithCancel(ctx)
		s.stop = cancel
		s.sizes = []size{{time.Now(), s.aofSize()}}
		go s.watch(ctx)
	}
	if s.warmed != nil {
		if err := s.warmed(ctx); err != nil {
			return err
		}
	}
	if s.work != nil {
		return s.work.start(ctx)
	}
	return nil
}

// awaitReplica waits until the stock's replica has all.
func (s *shop) awaitReplica() error {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		lines, err := s.t.redis[0].Ask("WAIT 1 1000")
		if err == nil && len(lines) > 0 && lines[0] == ":1" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the replica does not follow: %w", err)
		}
	}
}

func (s *shop) Buy(ctx context.Context, buyer, key string) (referee.Answer, error) {
	var said method.Answer
	err := s.server.ask(ctx, http.MethodPost, "/buy", url.Values{"buyer": {buyer}, "key": {key}}, &said)
	if err != nil {
		return referee.Answer{}, nil // what became of it is unknown; each error would be a line of the tally
	}
	kind := map[method.Answer]referee.Kind{
		method.Accepted: referee.Promise, method.SoldOut: referee.SoldOut, method.Bought: referee.Refused,
	}[said]
	return referee.Answer{Kind: kind, Said: string(said)}, nil
}

func (s *shop) Orders(ctx context.Context) (all []referee.Order, err error) {
	var orders []method.Order
	err = s.server.ask(ctx, http.MethodGet, "/orders", nil, &orders)
	for _, o := range orders {
		all = append(all, referee.Order{ID: o.ID, Buyer: o.Buyer})
	}
	return all, err
}

func (s *shop) Close() error {
	if s.stop != nil {
		s.stop()
	}
	for _, p := range []*process{s.server, s.work} {
		if p != nil {
			p.kill()
		}
	}
	if s.replica != nil {
		_ = s.replica.Close()
	}
	if s.t != nil {
		s.t.close()
	}
	return nil
}

// fault is a way of breaking a shop.
type fault struct {
	Name  string `json:"name"`
	fsync string
	lost  float64 // share of buyers whose first answer is lost
	fits  func(m method.Method) bool
	make  func(s *shop) []referee.Fault
}

func one(name string, breakIt, mend func(context.Context) error) []referee.Fault {
	return []referee.Fault{{Name: name, Break: breakIt, Mend: mend}}
}

func hasRedis(m method.Method) bool { return len(m.Redis) > 0 }

// faults are what is done to each method that has the part.
var faults = []fault{
	{
		Name: "replies lost, clients repeat", fsync: "no", lost: 0.2,
		fits: func(method.Method) bool { return true },
		make: func(*shop) []referee.Fault { return nil },
	},
	{
		Name: "worker killed", fsync: "no", fits: func(m method.Method) bool { return m.Worker },
		make: func(s *shop) []referee.Fault { return one("worker", killed(&s.work), started(&s.work)) },
	},
	{
		Name: "server killed", fsync: "no", fits: func(method.Method) bool { return true },
		make: func(s *shop) []referee.Fault { return one("server", killed(&s.server), started(&s.server)) },
	},
	powerCut("no", func(s *shop) int64 { return s.sizeAt(time.Time{}) }),
	powerCut("everysec", func(s *shop) int64 { return s.sizeAt(time.Now().Add(-time.Second)) }),
	powerCut("always", func(s *shop) int64 { return s.aofSize() }),
	{
		Name: "failover to a replica 0.2 s behind", fsync: "everysec", fits: hasRedis,
		make: func(s *shop) []referee.Fault {
			s.lagging = true
			return one("primary", s.failOver, func(context.Context) error { return s.t.redis[0].TakeOver(s.replica) })
		},
	},
	{
		Name: "database down", fsync: "no", fits: func(m method.Method) bool { return m.Name != "sluice" },
		make: func(s *shop) []referee.Fault {
			return one("database", func(context.Context) error { return s.stage.postgres.Halt() },
				func(context.Context) error { return s.stage.postgres.Resume() })
		},
	},
}

func killed(p **process) func(context.Context) error {
	return func(context.Context) error {
		(*p).kill()
		return nil
	}
}

func started(p **process) func(context.Context) error {
	return func(ctx context.Context) error { return (*p).start(ctx) }
}

// powerCut kills the stock's Redis, and takes from its file what its setting leaves
// to the operating system, which the machine's end would take: the worst that each
// setting allows.
func powerCut(fsync string, keep func(s *shop) int64) fault {
	return fault{
		Name: "power cut of Redis, fsync " + fsync, fsync: fsync, fits: hasRedis,
		make: func(s *shop) []referee.Fault {
			return one("redis", func(context.Context) error {
				bytes := keep(s)
				s.t.redis[0].Kill()
				if fsync == "always" {
					return nil
				}
				return os.Truncate(s.aof(), bytes)
			}, func(context.Context) error { return s.t.redis[0].Restart() })
		},
	}
}

// failOver has the replica miss what happens in a moment, and then ends the primary.
func (s *shop) failOver(context.Context) error {
	if _, err := s.replica.Ask("REPLICAOF NO ONE"); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	s.t.redis[0].Kill()
	return nil
}

// aof is the stock's append-only file.
func (s *shop) aof() string {
	files, _ := filepath.Glob(filepath.Join(s.t.redis[0].Dir(), "appendonlydir", "*.incr.aof"))
	if len(files) == 0 {
		return ""
	}
	return files[len(files)-1]
}

func (s *shop) aofSize() int64 {
	info, err := os.Stat(s.aof())
	if err != nil {
		return 0
	}
	return info.Size()
}

// watch notes the file's size again and again.
func (s *shop) watch(ctx context.Context) {
	for ctx.Err() == nil {
		now := size{time.Now(), s.aofSize()}
		s.mu.Lock()
		s.sizes = append(s.sizes, now)
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// sizeAt returns the file's size at a moment, or as it was first.
func (s *shop) sizeAt(at time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := s.sizes[0].bytes
	for _, n := range s.sizes {
		if n.at.Before(at) {
			bytes = n.bytes
		}
	}
	return bytes
}
