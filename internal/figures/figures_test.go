package figures

import "testing"

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for got, want := range map[string]string{
		Whole(999.6): "1,000", Short(0.034): "0.034", Short(0): "0", Short(23): "23", Short(12.34): "12.3",
		Short(1234): "1,234", Short(0.94): "0.94",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for ms, want := range map[float64]string{
		0.04: "0.0 ms", 9.94: "9.9 ms", 35.2: "35 ms", 1520: "1.52 s",
		15200: "15.2 s",
	} {
		if got := Milliseconds(ms); got != want {
			t.Errorf("%v: %s", ms, got)
		}
	}
}
