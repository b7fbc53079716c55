package engine_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Terms that a person changes in Redis are noticed by the next reading: the sale
// is fenced, rebuilt from the store, and goes on, with every order it had.
func TestTermsChangedByHand(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 100)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.redis.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, first := f.claim(0, 1)
	for i, change := range [][2]string{
		{"total", "1000"}, {"max_buyer", "-1"}, {"max_unpaid", "0"}, {"closes", "1"}, {"terms", "7"}, {"layout", "split"},
	} {
		epoch := int64(i) + 2
		set := c.B().Hset().Key("sluice:{phone}:sale").FieldValue().FieldValue(change[0], change[1]).Build()
		if err := c.Do(t.Context(), set).Error(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for server := range f.engines {
			f.until("the sale to go on after "+change[0]+" was changed", func() bool {
				status, order := f.claim(server, 1)
				if order != "" && order != first {
					t.Fatalf("%s: a repeat gets order %s, the first was %s", change[0], order, first)
				}
				now, err := c.Do(t.Context(), c.B().Hget().Key("sluice:{phone}:sale").Field("epoch").Build()).AsInt64()
				return status == 202 && err == nil && now == epoch
			})
		}
		t.Logf("%s: on again after %v", change[0], time.Since(began))
	}
	if status, _ := f.claim(1, 2); status != 202 {
		t.Errorf("another buyer: %d", status)
	}
	f.until("the second order to be stored", func() bool {
		sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
		return err == nil && sale.StoredTaken == 2
	})
	report, err := f.engines[0].Audit(t.Context(), f.sale)
	if err != nil || !report.OK {
		t.Errorf("the audit: %+v, %v", report, err)
	}
}
