// Package figures writes numbers for people.
package figures

import (
	"fmt"
	"math"
	"strconv"
)

// Thousands writes a number with commas: 1,234,567.
func Thousands[T ~int | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Whole writes a number without its fraction.
func Whole(n float64) string { return Thousands(int64(math.Round(n))) }

// Short writes a number: what is counted in full, else two or three digits that mean something.
func Short(n float64) string {
	switch {
	case n >= 100 || n == math.Trunc(n):
		return Whole(n)
	case n >= 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	case n > 0 && n < 0.1:
		return strconv.FormatFloat(n, 'f', 3, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// Plural counts in words: 1 order, 1,234 orders.
func Plural[T ~int | ~int64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// Seconds writes a duration with as many digits as mean something.
func Seconds(s float64) string {
	switch {
	case s >= 10:
		return fmt.Sprintf("%.1f s", s)
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	}
	return Milliseconds(s * 1000)
}

// Milliseconds is Seconds of a thousandth.
func Milliseconds(ms float64) string {
	switch {
	case ms >= 1000:
		return Seconds(ms / 1000)
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
