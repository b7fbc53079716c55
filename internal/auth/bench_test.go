package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// What a token costs the first time, and again.
func BenchmarkVerify(b *testing.B) {
	v := verifier(Options{Secret: secret, Keys: keysOf(b, document(b, ecOne(), rsaOne())), Cache: 1 << 20})
	claims := func(i int) jwt.MapClaims {
		return jwt.MapClaims{"sub": fmt.Sprint("buyer-", i), "exp": at(time.Hour), "iat": at(0)}
	}
	const tokens = 20_000 // more than fit into the memory
	fresh := make([]string, tokens)
	for i := range fresh {
		fresh[i] = signed(b, claims(i))
	}
	const few = 2000 // more than fit in, too, and quickly signed
	rs256, es256 := make([]string, few), make([]string, few)
	for i := range few {
		rs256[i], es256[i] = rsaOne().token(b, claims(i)), ecOne().token(b, claims(i))
	}
	for name, all := range map[string][]string{
		"RS256": rs256, "ES256": es256,
		"HS256": fresh, "remembered": fresh[:1],
		"forged": {fresh[0][:len(fresh[0])-4] + "AAAA"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := v.Verify(b.Context(), all[i%len(all)]); (err != nil) != (name == "forged") {
					b.Fatal(err)
				}
			}
		})
	}
}
