package client

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The signature is that of the specification's own example; whatever is not as it was sent
// is refused.
func TestVerifyWebhook(t *testing.T) {
	const secret, signature = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	sent := time.Unix(1614265330, 0)
	for name, c := range map[string]struct {
		secret, id, signature, body string
		later                       time.Duration
		want                        string
	}{
		"as it was sent":       {want: "the body is of the event"}, // which is none of Sluice's
		"the second signature": {signature: "v1,AAAA " + signature, want: "the body is of the event"},
		"another body":         {body: `{"test": 2432232315}`, want: "none of its signatures"},
		"another id":           {id: "msg_other", want: "none of its signatures"},
		"another version":      {signature: "v2" + signature[2:], want: "none of its signatures"},
		"no signature":         {signature: " ", want: "none of its signatures"},
		"another secret":       {secret: "whsec_" + strings.Repeat("A", 32), want: "none of its signatures"},
		"an empty secret":      {secret: "whsec_", want: "24 bytes or more"},
		"no secret":            {secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", want: "want whsec_"},
		"old":                  {later: 6 * time.Minute, want: "6m0s from now"},
		"of the future":        {later: -6 * time.Minute, want: "-6m0s from now"},
	} {
		or := func(text, instead string) string {
			if text == "" {
				return instead
			}
			return text
		}
		header := http.Header{}
		header.Set("webhook-id", or(c.id, "msg_p5jXN8AQM9LWM0D4loKWxJek"))
		header.Set("webhook-timestamp", "1614265330")
		header.Set("webhook-signature", or(c.signature, signature))
		body := []byte(or(c.body, `{"test": 2432232314}`))
		_, err := verifyWebhook(or(c.secret, secret), header, body, sent.Add(c.later))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
