// Package curve is what happened to a sale second by second, over all servers: answers to claims by kind, how long
// they took, how many were on their way. Each server counts its own, and keeps it in the store in stretches of at
// most a minute while claims come (Recorder); Merge puts those of all servers together.
package curve

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/sluicehq/sluice"
)

// Kind is what became of a claim, as a curve tells it.
type Kind int

// The kinds. Numbers are never reused: they are stored.
const (
	Accepted Kind = iota
	SoldOut       // or too few were left
	Limited       // by a limit per buyer or value
	NotNow        // the sale is not open yet, closed, or paused
	TooOften      // rates of buyers and addresses
	Refused       // for who or what sent them
	Failed        // nothing was decided: ledger, server, network
	Kinds
)

// Names are the kinds as the API has them.
var Names = [Kinds]string{"accepted", "sold_out", "limited", "not_now", "too_often", "refused", "failed"}

// KindOf returns the kind of an answer's code.
func KindOf(code string) Kind {
	switch code {
	case sluice.Accepted.String():
		return Accepted
	case sluice.SoldOut.String(), sluice.Insufficient.String():
		return SoldOut
	case sluice.BuyerLimit.String():
		return Limited
	case sluice.NotOpen.String(), sluice.Closed.String(), sluice.Paused.String():
		return NotNow
	case sluice.RateLimited.String():
		return TooOften
	case sluice.Unavailable.String(), sluice.Overloaded.String(), "outcome_unknown", "internal":
		return Failed
	}
	return Refused
}

// Buckets is how many classes of times there are: up to 2^Finest seconds (one millisecond), and each up to twice as
// long as the one before; the last has all that is longer.
const (
	Buckets = 16
	Finest  = -10
)

// bound returns the longest time of a class.
func bound(bucket int) time.Duration { return time.Second >> -Finest << bucket }

// Second is what one server has counted within one second.
type Second struct {
	Answers  [Kinds]int64
	InFlight int64          // claims on their way at its end, of all sales of the server
	Took     [Buckets]int64 // answers to claims, of all sales of the server, by how long they took
}

// claims is how many were answered.
func (s *Second) claims() (n int64) {
	for _, of := range s.Answers {
		n += of
	}
	return n
}

// A stored second is a byte that says how many fields follow, and each as its number and its value: most are zero.
const fields = int(Kinds) + 1 + Buckets

func (s *Second) field(i int) *int64 {
	switch {
	case i < int(Kinds):
		return &s.Answers[i]
	case i == int(Kinds):
		return &s.InFlight
	}
	return &s.Took[i-int(Kinds)-1]
}

// encode appends a second.
func (s *Second) encode(b []byte) []byte {
	at, n := len(b), byte(0)
	b = append(b, 0)
	for i := range fields {
		if v := *s.field(i); v > 0 {
			b = binary.AppendUvarint(append(b, byte(i)), uint64(v))
			n++
		}
	}
	b[at] = n
	return b
}

var errDamaged = errors.New("curve: a stretch cannot be read: another program has written it")

// decode calls do with each second of a stretch, and returns how many there are.
func decode(b []byte, do func(i int, s *Second)) (seconds int, err error) {
	for ; len(b) > 0; seconds++ {
		var s Second
		n := int(b[0])
		b = b[1:]
		for range n {
			if len(b) == 0 || int(b[0]) >= fields {
				return 0, errDamaged
			}
			v, length := binary.Uvarint(b[1:])
			if length <= 0 || v > math.MaxInt64 {
				return 0, errDamaged
			}
			*s.field(int(b[0])) = int64(v)
			b = b[1+length:]
		}
		if seconds == longest {
			return 0, errDamaged
		}
		do(seconds, &s)
	}
	return seconds, nil
}
