// Package method has the ways of selling a scarce thing to a crowd that five
// articles on flash sales describe, and Sluice, behind one interface: for comparing
// them, in speed and in what remains right when something breaks.
//
// Each article has a file here, and its scripts, with its keys, in .lua files.
// They keep to what the article says: keys, arguments, the order of the checks, what
// is returned. Where it says nothing, the kindest reading is taken, and a comment
// says so. None of this is used by Sluice itself.
package method

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"
)

// Answer is what a buyer receives.
type Answer string

// The answers. Accepted is a promise: the buyer will have the unit.
const (
	Accepted Answer = "accepted"
	SoldOut  Answer = "sold out"
	Bought   Answer = "already bought"
	Busy     Answer = "try again" // another buyer holds the lock, or this one tries too often
	NotOpen  Answer = "not started"
)

// Seller is a method at work, in one process. It is safe for concurrent use; other
// processes may have sellers on the same servers.
type Seller interface {
	// WarmUp puts units on sale, once, for all processes, and starts the sale.
	WarmUp(ctx context.Context, units int64) error
	// Expect prepares what a buyer's client has at hand before the sale begins.
	Expect(buyer string) error
	// Buy asks for one unit. A repeat of a request has its key; the articles have
	// none. After an error it is unknown what became of it.
	Buy(ctx context.Context, buyer, key string) (Answer, error)
	// Work stores accepted orders in the database until ctx ends, if that is the
	// work of another process than that which answers buyers (Method.Worker).
	Work(ctx context.Context) error
	// Stored returns how many live orders the database has.
	Stored(ctx context.Context) (int64, error)
	// Orders returns them.
	Orders(ctx context.Context) ([]Order, error)
	Close()
}

// Order is one unit of a buyer, as the database has it.
type Order struct{ ID, Buyer string }

// Servers are what a method works with.
type Servers struct {
	Redis    []string // host:port of each, as Method.Redis says
	Database string   // of PostgreSQL: a URL with an empty schema
	Dir      string   // a folder of this process's own
}

// Method is a way of selling.
type Method struct {
	Name  string // in commands
	Title string // in tables and pictures
	Does  string // in one sentence
	Own   bool   // Sluice
	// Redis says what each server is for. One that begins with "replica" follows
	// the one before it.
	Redis  []string
	Fsync  bool // wants Redis with appendfsync always; the others never wait for the disk
	Worker bool // see Seller.Work
	Open   func(ctx context.Context, on Servers) (Seller, error)
}

// Methods are all there are, in the order of the articles.
var Methods = []Method{
	s0Method, s1Method, lockMethod, redlockMethod, s2Method, s3Method, s4Method, rowMethod,
	embeddedMethod, redisMethod, fsyncMethod,
}

// Find returns a method by its name.
func Find(name string) (Method, error) {
	var names []string
	for _, m := range append(Methods, limitMethod) {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Method{}, fmt.Errorf("there is no method %q; there are: %s", name, strings.Join(names, ", "))
}

// What is sold.
const (
	good     = "10086"
	activity = "1111"
)

func dial(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, DisableRetry: true, ForceSingleClient: true,
		ConnWriteTimeout: 5 * time.Second,
	})
}

// base is what the sellers have in common: their Redis, and the orders in the
// database.
type base struct {
	redis []rueidis.Client
	db    *pgxpool.Pool
	next  atomic.Int64
}

// open connects. Every Redis that the method has is in the list.
func (b *base) open(ctx context.Context, on Servers) (err error) {
	for _, addr := range on.Redis {
		client, err := dial(addr)
		if err != nil {
			b.Close()
			return err
		}
		b.redis = append(b.redis, client)
	}
	config, err := pgxpool.ParseConfig(on.Database)
	if err == nil {
		config.MaxConns = 50
		b.db, err = pgxpool.NewWithConfig(ctx, config)
	}
	if err == nil {
		_, err = b.db.Exec(ctx, `CREATE TABLE IF NOT EXISTS orders (
			id text PRIMARY KEY, buyer text NOT NULL, live boolean NOT NULL DEFAULT true)`)
	}
	if err != nil {
		b.Close()
	}
	return err
}

func (b *base) Close() {
	for _, client := range b.redis {
		client.Close()
	}
	if b.db != nil {
		b.db.Close()
	}
}

// Expect has nothing to prepare: who the buyer is, is taken on trust.
func (b *base) Expect(string) error { return nil }

// Work of a method whose orders are stored by who answers the buyer.
func (b *base) Work(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (b *base) Stored(ctx context.Context) (n int64, err error) {
	err = b.db.QueryRow(ctx, "SELECT count(*) FROM orders WHERE live").Scan(&n)
	return n, err
}

func (b *base) Orders(ctx context.Context) ([]Order, error) {
	rows, err := b.db.Query(ctx, "SELECT id, buyer FROM orders WHERE live ORDER BY buyer")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Order])
}

// do sends commands to one Redis, one after the other, and stops at an error.
func do(ctx context.Context, client rueidis.Client, commands ...[]string) error {
	for _, c := range commands {
		err := client.Do(ctx, client.B().Arbitrary(c...).Build()).Error()
		if err != nil && !rueidis.IsRedisNil(err) {
			return fmt.Errorf("%s: %w", c[0], err)
		}
	}
	return nil
}

// orderID is made of the time and a sequence, like 2024110500012345, and of the
// process, since there may be several.
func (b *base) orderID() string {
	return time.Now().UTC().Format("20060102150405") + strconv.Itoa(os.Getpid()) +
		fmt.Sprintf("%06d", b.next.Add(1))
}

// store inserts an order. One that is there already stays as it is.
func (b *base) store(ctx context.Context, id, buyer string) error {
	_, err := b.db.Exec(ctx, "INSERT INTO orders (id, buyer) VALUES ($1, $2) ON CONFLICT DO NOTHING", id, buyer)
	return err
}

// sell is what follows a unit that was taken, where the article has no queue: the
// same process stores the order, and returns the unit if that fails.
func (b *base) sell(ctx context.Context, buyer string, giveBack func(context.Context) error) (Answer, error) {
	err := b.store(ctx, b.orderID(), buyer)
	if err == nil {
		return Accepted, nil
	}
	return "", errors.Join(err, giveBack(context.WithoutCancel(ctx)))
}

// pause waits, or returns false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
