// Package crowd names the buyers of a benchmark.
package crowd

import "github.com/sluicehq/sluice"

// Crowd names buyers and their attempts: the n-th is the same for every side
// that has the same seed, and no two are equal.
type Crowd struct{ Seed uint64 }

// New returns the crowd of a seed.
func New(seed uint64) Crowd { return Crowd{Seed: mix(seed)} }

const (
	manyBuyers = 10_000_000_000 // ids have ten digits
	// stride is prime and so leaves no id out; stride * manyBuyers fits in 64 bits.
	stride = 1_500_450_271

	buyerLen = len("user-0123456789")
	keyLen   = len("01234567-89ab-4cde-8f01-23456789abcd")
)

// appendBuyer appends the n-th buyer's id as shops number their users, in no
// visible order.
func (c Crowd) appendBuyer(dst []byte, n int64) []byte {
	id := (uint64(n)%manyBuyers*stride + c.Seed%manyBuyers) % manyBuyers
	dst = append(dst, "user-0000000000"...)
	for i := len(dst) - 1; id > 0; i, id = i-1, id/10 {
		dst[i] = '0' + byte(id%10)
	}
	return dst
}

// appendKey appends the n-th attempt's Idempotency-Key, which looks like the
// random UUID that clients make.
func (c Crowd) appendKey(dst []byte, n int64) []byte {
	const digits = "0123456789abcdef"
	a := mix(c.Seed + uint64(n))
	b := mix(^a)
	start := len(dst)
	dst = append(dst, "00000000-0000-4000-8000-000000000000"...)
	key := dst[start:]
	for i := range key {
		switch i {
		case 8, 13, 14, 18, 19, 23:
			continue
		}
		if i < 19 {
			key[i], a = digits[a&15], a>>4
		} else {
			key[i], b = digits[b&15], b>>4
		}
	}
	return dst
}

// Attempt returns the n-th buyer and key, in one allocation.
func (c Crowd) Attempt(n int64) (sluice.BuyerID, sluice.Key) {
	b := make([]byte, 0, buyerLen+keyLen)
	b = c.appendBuyer(b, n)
	b = c.appendKey(b, n)
	s := string(b)
	return sluice.BuyerID(s[:buyerLen]), sluice.Key(s[buyerLen:])
}

// mix is the finishing function of SplitMix64 (Steele, Lea, Flood: Fast
// splittable pseudorandom number generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
