package tickets

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"math/bits"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

// ChallengeLife is how long a challenge may be solved and handed in.
const ChallengeLife = 5 * time.Minute

// ErrUnsolved: the nonce does not solve the challenge.
var ErrUnsolved = errors.New("the nonce does not solve it")

const saltBytes = 9

// Challenge makes a challenge for one buyer and one sale. The difficulty, 1 to
// sluice.MaxDifficulty leading zero bits, is part of it: a change applies to
// those made after it. Each bit doubles the work: 2^difficulty hashes on average.
//
// It may be solved once and handed in many times until it expires: each time
// it gives a ticket for the same buyer and the same sale, which is no more
// than the first one. A risk service judges it once (Asker).
func (k *Keys) Challenge(sale sluice.SaleID, buyer sluice.BuyerID, difficulty int, now time.Time) (challenge string,
	expires time.Time,
) {
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails
	difficulty = min(max(difficulty, 1), sluice.MaxDifficulty)
	expires = now.Add(ChallengeLife).Truncate(time.Millisecond).UTC()
	current := k.known[0]
	text := string(forChallenge) + "." + current.id + "." + formatTime(expires.UnixMilli()) + "." +
		strconv.Itoa(difficulty) + "." + base64.RawURLEncoding.EncodeToString(salt[:])
	return current.sign(text, sale, buyer), expires
}

// CheckSolution returns nil if the challenge was made for this buyer and this
// sale with at least this difficulty, has not expired at now, by the ledger's
// clock, and the nonce solves it: SHA-256 of challenge, a dot and nonce begins
// with that many zero bits. Errors: ErrForged, ErrExpired, ErrUnsolved.
//
// A challenge that was made when the sale asked for less is ErrExpired: a
// new one is needed.
func (k *Keys) CheckSolution(challenge, nonce string, sale sluice.SaleID, buyer sluice.BuyerID, difficulty int,
	now time.Time,
) error {
	fields, expires, err := k.open(challenge, forChallenge, 3, sale, buyer)
	if err != nil {
		return err
	}
	asked, err := strconv.Atoi(fields[1])
	if err != nil {
		return ErrForged // ours are never so
	}
	if !now.Before(expires) || asked < min(difficulty, sluice.MaxDifficulty) {
		return ErrExpired
	}
	if !validNonce(nonce) || zeroBits(sha256.Sum256([]byte(challenge+"."+nonce))) < asked {
		return ErrUnsolved
	}
	return nil
}

// maxNonce is the longest nonce, in characters.
const maxNonce = 32

// validNonce wants 1 to maxNonce of A-Z, a-z, 0-9, '-' and '_'.
func validNonce(nonce string) bool {
	for i := range len(nonce) {
		c := nonce[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(nonce) >= 1 && len(nonce) <= maxNonce
}

func zeroBits(sum [sha256.Size]byte) int {
	n := 0
	for _, b := range sum {
		if b != 0 {
			return n + bits.LeadingZeros8(b)
		}
		n += 8
	}
	return n
}

// Solve finds a nonce for a challenge, and is how a program that is not a
// browser does it. It takes 2^difficulty hashes on average, unless ctx ends
// before: then its error is the context's.
func Solve(ctx context.Context, challenge string, difficulty int) (nonce string, err error) {
	text := append([]byte(challenge), '.')
	for n := uint64(0); ; n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		if zeroBits(sha256.Sum256(strconv.AppendUint(text, n, 10))) >= difficulty {
			return strconv.FormatUint(n, 10), nil
		}
	}
}
