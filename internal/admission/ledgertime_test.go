package admission

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/port"
)

// What the board knows of the ledger's clock, from readings as they come.
func TestLedgerTime(t *testing.T) {
	begin := time.Now()
	type step struct {
		asked, told int   // ms since begin, by this server's clock
		read        []int // ms since begin, by the ledger's
		want        int   // its clock at told, ms since begin
	}
	for name, steps := range map[string][]step{
		"the same clock":          {{asked: 0, told: 2, read: []int{1}, want: 1}},
		"a ledger ahead":          {{asked: 0, told: 2, read: []int{10_001}, want: 10_001}},
		"a ledger behind":         {{asked: 0, told: 2, read: []int{-9_999}, want: -9_999}},
		"nothing was read":        {{asked: 0, told: 2, want: 2}},
		"a sale that says none":   {{asked: 0, told: 2, read: []int{noTime, 10_001}, want: 10_001}},
		"the node that is behind": {{asked: 0, told: 2, read: []int{10_003, 10_001, 10_002}, want: 10_001}},
		"a slow answer changes nothing": {
			{asked: 0, told: 2, read: []int{10_001}, want: 10_001},
			{asked: 100, told: 900, read: []int{10_101}, want: 10_899},
			{asked: 1000, told: 1002, read: []int{11_001}, want: 11_001},
		},
		"a quick one sets a slow one right": {
			{asked: 0, told: 900, read: []int{10_001}, want: 10_001},
			{asked: 1000, told: 1002, read: []int{11_001}, want: 11_001},
		},
		"a ledger whose clock is set back, then forward": {
			{asked: 0, told: 2, read: []int{10_001}, want: 10_001},
			{asked: 200, told: 202, read: []int{201}, want: 201},
			{asked: 400, told: 402, read: []int{20_401}, want: 20_401},
		},
		"a clock that runs slow": {
			{asked: 0, told: 2, read: []int{1}, want: 1},
			{asked: 1000, told: 1002, read: []int{999}, want: 1001}, // within what the answer took
			{asked: 2000, told: 2002, read: []int{1997}, want: 1997},
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
			b := NewBoard(nil, nil, BoardOptions{})
			if got := b.LedgerTime(begin); !got.Equal(begin) {
				t.Errorf("before the first reading: %v, want this server's clock, %v", got, begin)
			}
			for i, step := range steps {
				var readings []port.Reading
				for _, ms := range step.read {
					r := port.Reading{}
					if ms != noTime {
						r.Now = at(ms)
					}
					readings = append(readings, r)
				}
				b.clock.take(at(step.asked), at(step.told), readings)
				for _, later := range []time.Duration{0, time.Second, time.Hour} { // it goes on with this server's clock
					if got, want := b.LedgerTime(at(step.told).Add(later)), at(step.want).Add(later); !got.Equal(want) {
						t.Errorf("step %d, %v after the reply: off by %v", i, later, got.Sub(want))
					}
				}
			}
		})
	}
}

// noTime is a reading without the ledger's clock.
const noTime = -1 << 40
