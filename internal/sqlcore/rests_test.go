package sqlcore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// Sales that hang take a bounded share of the loop's time, and have their turn
// again soon after they are well, however long they have hung.
func TestRests(t *testing.T) {
	for _, sales := range []int{1, 2, 20} {
		t.Run(fmt.Sprint(sales), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r rests
				const hangs = 3 * time.Second
				waited, well, back := time.Duration(0), false, map[sluice.SaleID]time.Duration{}
				begun := time.Now()
				round := func() {
					for i := range sales {
						sale := sluice.SaleID(fmt.Sprint("sale-", i))
						if r.resting(sale) {
							continue
						}
						if well {
							if _, seen := back[sale]; !seen {
								back[sale] = time.Since(begun)
							}
							r.note(sale, 0, false)
							continue
						}
						time.Sleep(hangs)
						waited += hangs
						r.note(sale, hangs, true)
					}
					time.Sleep(250 * time.Millisecond)
				}
				for time.Since(begun) < time.Hour {
					round()
				}
				if share := float64(waited) / float64(time.Since(begun)); share > 0.28 {
					t.Errorf("sales that hang take %.2f of the loop's time", share)
				}
				begun, well = time.Now(), true
				for len(back) < sales {
					round()
				}
				for sale, after := range back {
					if after > 20*time.Second {
						t.Errorf("%s had its turn %v after it was well", sale, after)
					}
				}
			})
		})
	}
}

// A failure that comes at once is followed by no rest, and ends one.
func TestRestsOfQuickFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rests
		r.note("slow", 3*time.Second, true)
		r.note("quick", isSlow-1, true)
		if !r.resting("slow") || r.resting("quick") {
			t.Errorf("resting: slow %t, quick %t", r.resting("slow"), r.resting("quick"))
		}
		r.note("other", 0, false) // which had not rested
		if !r.resting("slow") {
			t.Error("the success of a sale that was always well ended a rest")
		}
		r.note("slow", 0, true)
		if r.resting("slow") {
			t.Error("a sale that fails at once rests")
		}
	})
}

// A sale that comes and goes does not wake those that hang each time it is well.
func TestRestsBesideASaleThatFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rests
		const hangs = 3 * time.Second
		waited, flaps, begun := time.Duration(0), 0, time.Now()
		for time.Since(begun) < time.Hour {
			for i := range 20 {
				if sale := sluice.SaleID(fmt.Sprint("sale-", i)); !r.resting(sale) {
					time.Sleep(hangs)
					waited += hangs
					r.note(sale, hangs, true)
				}
			}
			if !r.resting("flaps") {
				if flaps++; flaps%2 == 0 {
					r.note("flaps", 0, false)
				} else {
					time.Sleep(isSlow)
					r.note("flaps", isSlow, true)
				}
			}
			time.Sleep(250 * time.Millisecond)
		}
		if share := float64(waited) / float64(time.Since(begun)); share > 0.5 {
			t.Errorf("sales that hang take %.2f of the loop's time", share)
		}
	})
}
