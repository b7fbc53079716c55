package port

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

func TestClaimLines(t *testing.T) {
	c := goodClaim()
	other := c
	other.Buyer, other.Meta = "bob", ""
	lines := AppendClaim(AppendClaim(nil, &c), &other)
	got, err := ParseClaims(string(lines))
	if err != nil || len(got) != 2 || got[0] != c || got[1] != other {
		t.Errorf("%q is read as %+v, %v", lines, got, err)
	}
	for _, bad := range []string{
		"no end", "\n", "buyer\n", "b\tattempt-1\torder\t1\t\n",
		strings.TrimSuffix(string(lines), "\n"),
		strings.Replace(string(lines), "\t2\t", "\t2x\t", 1),
		strings.Replace(string(lines), "\t2\t", "\t0\t", 1),
		strings.Replace(string(lines), "\t2\t", "\t2\textra\t", 1),
	} {
		if claims, err := ParseClaims(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, claims)
		}
	}
}

func goodClaim() sluice.Claim {
	return sluice.Claim{
		Buyer: "张三", Key: "attempt-1", Quantity: 2, Order: sluice.SaleID("phone").Order(strings.Repeat("0a", 16)),
		Meta: `{"note":"a \t b"}`,
	}
}

// Whatever stands in a journal is read without harm, and what is read is
// written back as the same bytes.
func FuzzParseClaims(f *testing.F) {
	c := goodClaim()
	f.Add(string(AppendClaim(nil, &c)))
	f.Add("a\tb\tc\t1\t\n")
	f.Fuzz(func(t *testing.T, lines string) {
		claims, err := ParseClaims(lines)
		if err != nil {
			return
		}
		var back []byte
		for i := range claims {
			if err := claims[i].Validate(); err != nil {
				t.Fatalf("%q: an invalid claim is read: %v", lines, err)
			}
			back = AppendClaim(back, &claims[i])
		}
		again, err := ParseClaims(string(back))
		if err != nil || len(again) != len(claims) {
			t.Fatalf("%q: written back as %q: %v", lines, back, err)
		}
		for i := range claims {
			if again[i] != claims[i] {
				t.Fatalf("%q: claim %d changes from %+v to %+v", lines, i, claims[i], again[i])
			}
		}
	})
}
