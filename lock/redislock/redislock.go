// Package redislock keeps locks in Redis: see [lock.Backend].
//
// A lock is one key that expires, and a second one keeps the last fencing number of
// its name for a day after its last use:
//
//	lock:{NAME}        hash: owner, fence, ttl (ms)
//	lock:{NAME}:fence  the last fencing number
//
// Redis replicates after it has answered: a failover may forget a lock that is held,
// and a second holder gets it, with a higher fencing number. [lock.Redlock] over
// Redis servers that are independent of each other survives the loss of one.
package redislock

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice/lock"
)

var (
	//go:embed lease.lua
	leaseText string
	//go:embed unlease.lua
	unleaseText string

	lease   = rueidis.NewLuaScript(leaseText)
	unlease = rueidis.NewLuaScript(unleaseText)
)

type backend struct{ client rueidis.Client }

// New returns a Backend on the server, the Sentinel group or the Cluster of a client,
// which stays the caller's to close. A ttl is at least a millisecond.
func New(client rueidis.Client) lock.Backend { return backend{client} }

func (k backend) Lease(ctx context.Context, name, owner string, fence int64, ttl time.Duration) (int64, error) {
	if err := check(name, owner, fence, ttl); err != nil {
		return 0, err
	}
	text, err := lease.Exec(ctx, k.client, []string{key(name), key(name) + ":fence"},
		[]string{owner, strconv.FormatInt(fence, 10), strconv.FormatInt(ttl.Milliseconds(), 10)}).ToString()
	if err != nil {
		return 0, fmt.Errorf("lease %s: %w", name, err)
	}
	return strconv.ParseInt(text, 10, 64)
}

func (k backend) Unlease(ctx context.Context, name, owner string) error {
	if err := unlease.Exec(ctx, k.client, []string{key(name)}, []string{owner}).Error(); err != nil {
		return fmt.Errorf("unlease %s: %w", name, err)
	}
	return nil
}

func key(name string) string { return "lock:{" + name + "}" }

// check refuses what scripts cannot take.
func check(name, owner string, fence int64, ttl time.Duration) error {
	const maxFence = 1 << 53 // what Lua's numbers hold
	switch {
	case name == "" || len(name) > 255:
		return fmt.Errorf("the name of a lock has %d bytes: want 1 to 255", len(name))
	case name[0] == '}': // the hash tag would be empty, and the two keys on different nodes
		return fmt.Errorf("the name of a lock begins with }: %s", name)
	case owner == "" || len(owner) > 255:
		return fmt.Errorf("the owner of a lock has %d bytes: want 1 to 255", len(owner))
	case fence < 0 || fence > maxFence:
		return fmt.Errorf("fencing number %d: want 0 to %d", fence, int64(maxFence))
	case ttl < time.Millisecond:
		return fmt.Errorf("a ttl of %v: want a millisecond or more", ttl)
	}
	return nil
}
