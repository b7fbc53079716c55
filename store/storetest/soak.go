package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// Soak races payments against expiry and cancelling 10,000 times each, and then
// repeats what is random for as long as SLUICE_TEST_SOAK says. Without it, it
// skips.
func (databases Databases) Soak(t *testing.T) {
	text := os.Getenv("SLUICE_TEST_SOAK")
	if text == "" {
		t.Skip("a long campaign: set SLUICE_TEST_SOAK to its duration")
	}
	long, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SLUICE_TEST_SOAK: %v", err)
	}
	create := databases(t)
	end := time.Now().Add(long)
	t.Run("PaymentAgainstExpiry", func(t *testing.T) { racePaymentAndExpiry(t, create(t), 10_000) })
	t.Run("PaymentAgainstCancel", func(t *testing.T) { racePaymentAndCancel(t, create(t), 10_000) })
	for round := 1; time.Now().Before(end) && !t.Failed(); round++ {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("round=%d", round), func(t *testing.T) {
			t.Run("EverythingAtOnce", func(t *testing.T) { testEverythingAtOnce(t, create(t)) })
			t.Run("LoadsAgainstEndings", func(t *testing.T) { testLoadsAgainstEndings(t, create(t)) })
			t.Run("ConcurrentExpiry", func(t *testing.T) { testConcurrentExpiry(t, create(t)) })
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { random(t, create(t), "random", seed, 1000) })
		})
	}
}

// random does the same random things to a store and to the model.
func random(t *testing.T, db Database, sale sluice.SaleID, seed uint64, steps int) {
	r := &randomRun{t: t, db: db, s: db.Open(t), random: rand.New(rand.NewPCG(seed, 7))}
	r.run(sale, steps)
}
