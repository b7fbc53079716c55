package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/auth"
)

// BuyerName is the i-th buyer of a crowd whose tokens are minted.
func BuyerName(i int) sluice.BuyerID { return sluice.BuyerID(fmt.Sprintf("buyer-%06d", i)) }

// Mint signs a buyer's token (HS256) that is valid for ttl from now.
func Mint(secret []byte, buyer sluice.BuyerID, now time.Time, ttl time.Duration) (string, error) {
	return Minter{Secret: secret}.Mint(buyer, now, ttl)
}

// Minter signs buyers' tokens (HS256).
type Minter struct {
	Secret           []byte
	Issuer, Audience string // "iss" and "aud", if the server wants them
	// Sales lists the sales that the buyer is invited to (sluice.EligibleToken).
	Sales []sluice.SaleID
	// Signed are more claims: what limits of sales are by.
	Signed map[string]string
}

// Mint signs a token that is valid for ttl from now.
func (m Minter) Mint(buyer sluice.BuyerID, now time.Time, ttl time.Duration) (string, error) {
	if err := buyer.Validate(); err != nil {
		return "", err
	}
	claims := map[string]any{"sub": buyer, "iat": now.Unix(), "exp": now.Add(ttl).Unix()}
	for name, value := range m.Signed {
		claims[name] = value
	}
	if m.Issuer != "" {
		claims["iss"] = m.Issuer
	}
	if m.Audience != "" {
		claims["aud"] = m.Audience
	}
	if len(m.Sales) > 0 {
		claims["sluice_sales"] = m.Sales
	}
	token, err := auth.Sign(m.Secret, claims)
	if err != nil {
		return "", fmt.Errorf("loadgen: sign a token: %w", err)
	}
	return token, nil
}

// Prepare mints the tokens and decides who tries when; Rush does it otherwise.
func (c *Crowd) Prepare(ctx context.Context) error {
	c.plan, c.second = shuffle(c.o.Buyers, c.o.Again, c.o.Seed)
	if c.o.Duration == 0 {
		c.o.Progress.Planned.Store(int64(len(c.plan)))
	}
	if len(c.o.Tokens) > 0 {
		c.tokens = c.o.Tokens[:c.o.Buyers]
		return nil
	}
	tokens := make([]string, c.o.Buyers)
	now := time.Now()
	ttl := time.Hour + 2*c.o.Duration
	minter := Minter{Secret: c.o.Secret, Issuer: c.o.Issuer, Audience: c.o.Audience}
	if c.o.Invited {
		minter.Sales = []sluice.SaleID{c.o.Sale}
	}
	workers := runtime.GOMAXPROCS(0)
	failed := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(tokens); i += workers {
				if i%1024 == w && ctx.Err() != nil {
					failed[w] = ctx.Err()
					return
				}
				if tokens[i], failed[w] = minter.Mint(BuyerName(i), now, ttl); failed[w] != nil {
					return
				}
				c.o.Progress.Minted.Add(1)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	c.tokens = tokens
	return nil
}

// shuffle puts the tries in their order: every buyer once, a share of them
// twice. second marks the second try of a buyer.
func shuffle(buyers int, again float64, seed uint64) (plan []int32, second []bool) {
	r := rand.New(rand.NewPCG(seed, 0x51D1CE))
	twice := int(float64(buyers)*again + 0.5)
	plan = make([]int32, 0, buyers+twice)
	for i := range buyers {
		plan = append(plan, int32(i))
	}
	r.Shuffle(buyers, func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	plan = append(plan, plan[:twice]...)
	r.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	second = make([]bool, len(plan))
	seen := make([]bool, buyers)
	for i, b := range plan {
		second[i] = seen[b]
		seen[b] = true
	}
	return plan, second
}

// pick returns the buyer and the key of the n-th try. After the last one the
// crowd comes round again, with new keys.
func (c *Crowd) pick(n int64) (buyer int, key sluice.Key) {
	i, round := n%int64(len(c.plan)), n/int64(len(c.plan))
	attempt := 2 * round
	if c.second[i] {
		attempt++
	}
	buyer = int(c.plan[i])
	b := make([]byte, 0, 48)
	b = append(b, "load-"...)
	b = strconv.AppendUint(b, c.o.Seed, 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(buyer), 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, attempt, 36)
	return buyer, sluice.Key(b)
}
