package engine

import "github.com/sluicehq/sluice"

// limiter counts tries over all servers, in the ledger that they share. Without
// one, no try passes that such a rate bounds.
func limiter(ledger sluice.Ledger) sluice.RateLimiter {
	limiter, _ := ledger.(sluice.RateLimiter)
	return limiter
}
