package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
)

// maxBatch is the most claims that one script call accepts, and the most
// releases that it takes: it keeps the script under a millisecond, and its
// arguments under what proxies allow.
const maxBatch = 250

// together is how many calls of the script are one transaction, if there is
// more than one: two or three milliseconds of Redis's time for 1,000 claims,
// and with appendfsync always one fsync for all of them.
const together = 4

// appendAsker appends what commit.lua and release.lua begin with (guards.lua): the
// calling server, the sequences it has received, the clock, whether WAIT follows, and the
// version of the terms, empty for any.
func (l *Ledger) appendAsker(args []string, m received, version string) []string {
	return append(args, l.opts.Node, toldPrefix+l.opts.Node,
		strconv.FormatInt(m.epoch, 10), strconv.FormatInt(m.reported, 10), strconv.FormatInt(m.seen, 10), l.now(),
		strconv.FormatInt(sluice.RefusalLease.Milliseconds(), 10), oneIf(l.opts.WaitReplicas > 0), version)
}

// runBatches runs a script once for each list of arguments, in order, and waits
// for the replicas if there are any to wait for. Every error means that the
// outcome is unknown.
func (l *Ledger) runBatches(ctx context.Context, s *script, keys []string, args [][]string) ([]rueidis.RedisMessage,
	error,
) {
	if len(args) == 1 && l.opts.WaitReplicas <= 0 {
		message, err := l.run(ctx, s, keys, args[0])
		return []rueidis.RedisMessage{message}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout+l.opts.WaitTimeout)
	defer cancel()
	send := l.client.DoMulti
	if l.opts.WaitReplicas > 0 {
		send = l.onOneConnection
	}
	messages := make([]rueidis.RedisMessage, len(args))
	waiting := make([]int, len(args)) // calls that did not run yet
	for i := range args {
		waiting[i] = i
	}
	for _, withText := range []bool{false, true} {
		var commands []rueidis.Completed
		for group := range slices.Chunk(waiting, together) {
			commands = append(commands, l.client.B().Multi().Build())
			for _, i := range group {
				commands = append(commands, l.command(s, withText, keys, args[i]))
			}
			commands = append(commands, l.client.B().Exec().Build())
		}
		if l.opts.WaitReplicas > 0 {
			// WAIT covers the writes of its own connection, from Redis 7.2 on nothing
			// else; the scripts write what must be covered, also where they change nothing.
			commands = append(commands, l.wait())
		}
		results := send(ctx, commands...)
		again, err := executed(waiting, results, messages)
		if err != nil {
			return nil, l.explain(err)
		}
		if l.opts.WaitReplicas > 0 && len(again) < len(waiting) {
			if err := l.checkWait(results[len(results)-1]); err != nil {
				return nil, fmt.Errorf("outcome unknown: %w", err)
			}
		}
		if waiting = again; len(waiting) == 0 {
			return messages, nil
		}
	}
	return nil, fmt.Errorf("script %s is not kept by the server", s.name)
}

// dedicated is a connection to one node, taken from those of the client.
type dedicated struct {
	rueidis.DedicatedClient
	release func()
}

// dedicate takes a connection. The context bounds the wait for it.
func (l *Ledger) dedicate(ctx context.Context) (conn dedicated, err error) {
	taken := make(chan dedicated)
	go func() { // the client takes no context: it may connect, or wait for another call's connection
		conn, release := l.client.Dedicate()
		select {
		case taken <- dedicated{conn, release}:
		case <-ctx.Done():
			release()
		}
	}()
	select {
	case conn = <-taken:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return conn, err
}

// onOneConnection sends the commands to one node. The client's own DoMulti would
// follow a redirection of the Cluster with the transaction alone, and would ask
// the node that had the slot before whether its replicas have what it never got.
func (l *Ledger) onOneConnection(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	conn, err := l.dedicate(ctx)
	if err != nil {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(commands))
	}
	defer conn.release()
	results := conn.DoMulti(ctx, commands...)
	for i := range results {
		if results[i].NonRedisError() != nil {
			conn.Close() // it may hang, and others would wait behind these commands
			break
		}
	}
	return results
}

// executed takes the replies of the transactions that runBatches sends, and
// returns the calls of which none ran, for want of the script.
func executed(calls []int, results []rueidis.RedisResult, messages []rueidis.RedisMessage) (again []int, err error) {
	for group := range slices.Chunk(calls, together) {
		for _, queued := range results[1 : len(group)+1] {
			if err := queued.Error(); err != nil { // EXEC would only say that something was wrong
				return nil, perhaps(len(calls) > together, err)
			}
		}
		exec := results[len(group)+1]
		results = results[len(group)+2:]
		replies, err := exec.ToArray()
		if err != nil {
			return nil, err
		}
		if len(replies) != len(group) {
			return nil, fmt.Errorf("%d replies to %d calls", len(replies), len(group))
		}
		for n, i := range group {
			if err := replies[n].Error(); isNoScript(err) {
				again = append(again, i)
			} else if err != nil {
				return nil, perhaps(len(calls) > 1, err)
			}
			messages[i] = replies[n]
		}
	}
	return again, nil
}

// perhaps is an error that says nothing about what was done, if another call
// may have been: it must not be taken for a refusal to write anything.
func perhaps(others bool, err error) error {
	if others {
		return fmt.Errorf("outcome unknown: %s", err.Error())
	}
	return err
}

// wait is the command that waits until the replicas have what its connection wrote.
func (l *Ledger) wait() rueidis.Completed {
	return l.client.B().Wait().Numreplicas(int64(l.opts.WaitReplicas)).Timeout(l.opts.WaitTimeout.Milliseconds()).Build()
}

// checkWait is an error unless enough replicas have it.
func (l *Ledger) checkWait(result rueidis.RedisResult) error {
	acks, err := result.AsInt64()
	if err != nil {
		return fmt.Errorf("wait for replicas: %w", l.explain(err))
	}
	if acks < int64(l.opts.WaitReplicas) {
		return fmt.Errorf("%d of %d replicas have it after %s", acks, l.opts.WaitReplicas, l.opts.WaitTimeout)
	}
	return nil
}
