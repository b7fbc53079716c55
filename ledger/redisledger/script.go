package redisledger

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

//go:embed lua/*.lua lua/parts/*.lua
var sources embed.FS

// script is one file of lua/. Its first lines are its contract. A line "-- part:
// FILE" stands for that file of lua/parts, which it shares with others.
type script struct {
	name string
	text string
	sha  string
}

var (
	commitScript      = load("commit")
	readScript        = load("read")
	recordsScript     = load("records")
	loadBeginScript   = load("load_begin")
	loadRecordsScript = load("load_records")
	applyScript       = load("apply")
	fenceScript       = load("fence")
	unfenceScript     = load("unfence")
	ackScript         = load("ack")
	releaseScript     = load("release")
	dropScript        = load("drop")
	rateScript        = load("rate")
)

func load(name string) *script {
	text := part.ReplaceAllStringFunc(source(name+".lua"), func(line string) string {
		return source("parts/" + part.FindStringSubmatch(line)[1])
	})
	sum := sha1.Sum([]byte(text))
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

var part = regexp.MustCompile(`(?m)^-- part: (.*)$`)

func source(file string) string {
	text, err := sources.ReadFile("lua/" + file)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// command builds the call of a script, by its hash or with its text.
func (l *Ledger) command(s *script, withText bool, keys, args []string) rueidis.Completed {
	if withText {
		return l.client.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	return l.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// run calls a script. The script cache is volatile (restart, failover, SCRIPT
// FLUSH); NOSCRIPT means that nothing ran, so sending the text is safe.
func (l *Ledger) run(ctx context.Context, s *script, keys, args []string) (rueidis.RedisMessage, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	result := l.client.Do(ctx, l.command(s, false, keys, args))
	if isNoScript(result.Error()) {
		result = l.client.Do(ctx, l.command(s, true, keys, args))
	}
	message, err := result.ToMessage()
	return message, l.explain(err)
}

// runMany calls a script once for each list of keys and arguments, in one round trip. Each
// result has its own error: in a Cluster one shard may answer and another not.
func (l *Ledger) runMany(ctx context.Context, s *script, keys, args [][]string) []rueidis.RedisResult {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	results := make([]rueidis.RedisResult, len(keys))
	waiting := make([]int, len(keys)) // calls that did not run yet
	for i := range waiting {
		waiting[i] = i
	}
	for _, withText := range []bool{false, true} {
		commands := make([]rueidis.Completed, len(waiting))
		for n, i := range waiting {
			commands[n] = l.command(s, withText, keys[i], args[i])
		}
		again := waiting[:0]
		for n, result := range l.client.DoMulti(ctx, commands...) {
			i := waiting[n]
			if results[i] = result; isNoScript(result.Error()) {
				again = append(again, i)
			}
		}
		if waiting = again; len(waiting) == 0 {
			break
		}
	}
	return results
}

func isNoScript(err error) bool {
	redisErr, ok := rueidis.IsRedisErr(err)
	return ok && redisErr.IsNoScript()
}

// refusesWrites reports whether Redis says that it does not write now: the disk
// or the memory is full, the node is a replica, or lacks replicas of its own.
// Every script writes its first key before any other, so nothing was written.
func refusesWrites(text string) bool {
	for _, prefix := range []string{"MISCONF", "OOM", "READONLY", "NOREPLICAS"} {
		if strings.HasPrefix(text, prefix) || strings.Contains(text, "-"+prefix+" ") { // the latter from within a script
			return true
		}
	}
	return false
}

// explain says in our words what an operator can do something about.
func (l *Ledger) explain(err error) error {
	switch redisErr, ok := rueidis.IsRedisErr(err); {
	case err == nil:
		return nil
	case l.closed.Load():
		return sluice.ErrClosed
	case ok && refusesWrites(redisErr.Error()):
		return fmt.Errorf("%w: %w", sluice.ErrRefusesWrites, err)
	case isWrongType(err):
		return fmt.Errorf("a key of the sale holds something else than a ledger's data: %w: %w", port.ErrNotLoaded, err)
	case isSilence(err):
		return fmt.Errorf("%w: %w", sluice.ErrNoAnswer, err)
	}
	return err
}

// isSilence reports whether a connection failed, or time ran out.
func isSilence(err error) bool {
	network := net.Error(nil)
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// isWrongType reports whether a key has another type than the ledger gave it.
// What it held is gone, as if the key were: Read says so, and a rebuild follows.
// Scripts find that before they write anything.
func isWrongType(err error) bool {
	redisErr, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(redisErr.Error(), "WRONGTYPE") // Redis 6 says first in which script
}
