package auth

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/internal/must"
)

// raw is a token with exactly this header and payload, signed.
func raw(t testing.TB, method jwt.SigningMethod, key any, header, payload string) string {
	t.Helper()
	text := segment(header) + "." + segment(payload)
	signature := must.Get(method.Sign(text, key))(t)
	return text + "." + segment(string(signature))
}

// Names of claims are exact, no name is duplicated, texts are texts and times are
// numbers. What is wrong with a token that the shop has signed is said.
func TestClaimsAreStrict(t *testing.T) {
	v := verifier(Options{Secret: secret, Keys: keysOf(t, document(t, ecOne()))})
	named := verifier(Options{Secret: secret, Keys: keysOf(t, document(t, ecOne())), Issuer: "shop", Audience: "sluice"})
	exp := `"exp":` + strconv.FormatInt(at(time.Hour), 10)
	good := `{"sub":"alice",` + exp
	for _, c := range []struct {
		v              *Verifier
		name           string
		payload, wrong string
	}{
		{v, "as usual", good + `}`, ""},
		{v, "spaces", " {\n\t\"sub\" : \"alice\" , " + exp + " }\r\n", ""},
		{v, "escapes are letters", `{"\u0073ub":"\u0061lice",` + exp + `}`, ""},
		{v, "other claims are anybody's", good +
			`,"a":{"sub":"x","sub":"y","z":[{"exp":"}\"]"},[]]},"b":"\"}\\","c":null,"d":-1e9,"roles":7}`, ""},
		{v, "many claims", good + manyClaims(200) + `}`, ""},
		{v, "other letters mean another claim", good +
			`,"Sub":"eve","SUB":"eve","EXP":1,"Nbf":1e18,"ISS":7,"Sluice_Sales":7}`, ""},
		{v, "null is as good as absent", good +
			`,"nbf":null,"iss":null,"aud":null,"sluice_sales":null,"iat":null,"jti":null}`, ""},
		{v, "a pair of surrogates", good + `,"name":"\ud83d\uDE00"}`, ""},
		{v, "a backslash before a u", good + `,"name":"\\ud83d"}`, ""},
		{v, "a fraction", `{"sub":"alice","exp":` + strconv.FormatInt(at(-29*time.Second), 10) + `.5}`, ""},
		{v, "an exponent", `{"sub":"alice","exp":1.8e9,"nbf":1e9}`, ""},
		{v, "the last second of 64 bits", `{"sub":"alice","exp":9223372036854775807}`, ""},
		{v, "the first second of 64 bits", good + `,"nbf":-9223372036854775808}`, ""},

		{v, "SUB", `{"SUB":"alice",` + exp + `}`, `no "sub"`},
		{v, "EXP", `{"sub":"alice","EXP":1894398401}`, `no "exp"`},
		{v, "the long s", `{"ſub":"alice",` + exp + `}`, `no "sub"`},
		{named, "ISS", good + `,"ISS":"shop","aud":"sluice"}`, `"iss"`},
		{named, "Aud", good + `,"iss":"shop","Aud":"sluice"}`, `"aud"`},
		{v, "sub twice", good + `,"sub":"eve"}`, `"sub" twice`},
		{v, "sub twice, the same", good + `,"sub":"alice"}`, `"sub" twice`},
		{v, "sub twice, once escaped", good + `,"\u0073\u0075b":"eve"}`, `"sub" twice`},
		{v, "exp twice", good + `,` + exp + `}`, `"exp" twice`},
		{v, "another claim twice", good + `,"roles":1,"x":2,"roles":3}`, `"roles" twice`},
		{v, "twice among many", good + manyClaims(200) + `,"c7":1}`, `"c7" twice`},

		{v, "invalid UTF-8 in sub", "{\"sub\":\"alice\xff\"," + exp + "}", "UTF-8"},
		{v, "a surrogate in UTF-8", "{\"sub\":\"alice\xed\xa0\x80\"," + exp + "}", "UTF-8"},
		{v, "invalid UTF-8 in a name", good + ",\"x\xff\":1}", "UTF-8"},
		{v, "a high surrogate alone", `{"sub":"alice\ud800",` + exp + `}`, "half a character"},
		{v, "a low surrogate alone", `{"sub":"alice\uDFFF",` + exp + `}`, "half a character"},
		{v, "two high surrogates", `{"sub":"alice\ud83d\ud83d\ude00",` + exp + `}`, "half a character"},
		{v, "a high surrogate and a letter", `{"sub":"alice\ud83d\u0041",` + exp + `}`, "half a character"},
		{v, "a half in another claim", good + `,"name":"\udead"}`, "half a character"},
		{v, "a control character", `{"sub":"alice\u0000",` + exp + `}`, "control"},

		{v, "sub is a number", `{"sub":7,` + exp + `}`, `"sub" is not a text`},
		{v, "sub is a list", `{"sub":["alice"],` + exp + `}`, `"sub" is not a text`},
		{v, "sub is null", `{"sub":null,` + exp + `}`, `no "sub"`},
		{v, "sub is empty", `{"sub":"",` + exp + `}`, `"sub"`},
		{v, "exp is a text", `{"sub":"alice","exp":"tomorrow"}`, `"exp" is not a number`},
		{v, "exp is a number in quotes", `{"sub":"alice","exp":"1894398401"}`, `"exp" is not a number`},
		{v, "exp is true", `{"sub":"alice","exp":true}`, `"exp" is not a number`},
		{v, "exp is null", `{"sub":"alice","exp":null}`, `no "exp"`},
		{v, "exp beyond 64 bits", `{"sub":"alice","exp":9223372036854775808}`, `"exp" is beyond`},
		{v, "exp far beyond", `{"sub":"alice","exp":1e400}`, `"exp" is beyond`},
		{v, "exp far below", `{"sub":"alice","exp":-1e30}`, `"exp" is beyond`},
		{v, "nbf beyond 64 bits", good + `,"nbf":1e19}`, `"nbf" is beyond`},
		{v, "nbf is an object", good + `,"nbf":{}}`, `"nbf" is not a number`},
		{v, "iat beyond 64 bits", good + `,"iat":99999999999999999999}`, `"iat" is beyond`},
		{v, "iat is a text", good + `,"iat":"now"}`, `"iat" is not a number`},
		{v, "iss is a list", good + `,"iss":["shop"]}`, `"iss" is not a text`},
		{v, "jti is a number", good + `,"jti":7}`, `"jti" is not a text`},
		{v, "aud is a number", good + `,"aud":7}`, `"aud" is not a text or a list of texts`},
		{v, "aud has a number", good + `,"aud":["sluice",7]}`, `"aud" is not a text or a list of texts`},
		{v, "aud has a null", good + `,"aud":["sluice",null]}`, `"aud" is not a text or a list of texts`},
		{v, "sluice_sales is a text", good + `,"sluice_sales":"vip"}`, `"sluice_sales" is not a list of texts`},
		{v, "sluice_sales has a null", good + `,"sluice_sales":[null]}`, `"sluice_sales" is not a list of texts`},

		{v, "a list", `[]`, "not a JWT"},
		{v, "null", `null`, "not a JWT"},
		{v, "nothing", ``, "not a JWT"},
		{v, "cut off", good, "not a JWT"},
		{v, "something follows", good + `} {}`, "not a JWT"},
		{v, "no claims", `{}`, `no "exp"`},
	} {
		want(t, c.v, c.name+", HS256", raw(t, jwt.SigningMethodHS256, secret, `{"alg":"HS256","typ":"JWT"}`, c.payload),
			c.wrong)
		want(t, c.v, c.name+", HS256 the long way",
			raw(t, jwt.SigningMethodHS256, secret, `{"typ":"JWT","alg":"HS256"}`, c.payload), c.wrong)
		want(t, c.v, c.name+", ES256", raw(t, ecOne().method, ecOne().key, `{"alg":"ES256","kid":"ec-1"}`, c.payload),
			c.wrong)
	}
}

func manyClaims(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"c` + strconv.Itoa(i) + `":` + strconv.Itoa(i))
	}
	return b.String()
}

// So is the header.
func TestHeaderIsStrict(t *testing.T) {
	v := verifier(Options{Secret: secret, Keys: keysOf(t, document(t, ecOne()))})
	payload := `{"sub":"alice","exp":` + strconv.FormatInt(at(time.Hour), 10) + `}`
	for _, c := range []struct{ name, header, wrong string }{
		{"as usual", `{"alg":"ES256","kid":"ec-1","typ":"JWT"}`, ""},
		{"escapes are letters", `{"\u0061lg":"ES\u003256","k\u0069d":"ec-1"}`, ""},
		{"other letters mean another parameter", `{"alg":"ES256","kid":"ec-1","ALG":"none","KID":7,"Crit":["x"]}`, ""},
		{"kid is null", `{"alg":"ES256","kid":null}`, ""},
		{"ALG", `{"ALG":"ES256","kid":"ec-1"}`, "alg"},
		{"alg is a number", `{"alg":256,"kid":"ec-1"}`, "alg"},
		{"alg in other letters", `{"alg":"es256","kid":"ec-1"}`, "alg"},
		{"alg twice", `{"alg":"none","alg":"ES256","kid":"ec-1"}`, `header has "alg" twice`},
		{"kid twice", `{"alg":"ES256","kid":"x","kid":"ec-1"}`, `header has "kid" twice`},
		{"another one twice", `{"alg":"ES256","typ":"JWT","typ":"JWT","kid":"ec-1"}`, `header has "typ" twice`},
		{"invalid UTF-8", "{\"alg\":\"ES256\",\"kid\":\"ec-1\",\"x\":\"\xff\"}", "UTF-8"},
		{"half a character", `{"alg":"ES256","kid":"\ud800"}`, "half a character"},
		{"kid is a list", `{"alg":"ES256","kid":["ec-1"]}`, "kid"},
		{"crit", `{"alg":"ES256","kid":"ec-1","crit":[]}`, "crit"},
		{"crit is null", `{"alg":"ES256","kid":"ec-1","crit":null}`, "crit"},
		{"crit by an escape", `{"alg":"ES256","kid":"ec-1","cri\u0074":["exp"]}`, "crit"},
		{"a list", `["ES256"]`, "not a JWT"},
		{"cut off", `{"alg":"ES256"`, "not a JWT"},
	} {
		want(t, v, c.name, raw(t, ecOne().method, ecOne().key, c.header, payload), c.wrong)
	}
}
