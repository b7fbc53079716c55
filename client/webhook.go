package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// webhookAge is how far the time of a webhook's attempt may be from now, either way.
const webhookAge = 5 * time.Minute

// VerifyWebhook returns the event of a webhook's request, if the request is signed with the
// secret (whsec_...) and not older than five minutes (Standard Webhooks,
// https://www.standardwebhooks.com). The body is all of it, as it came: bound what is read
// of a request, like http.MaxBytesReader(w, r.Body, 1<<20). An event may come more than
// once: compare its ID. Answer 200 to types that the program does not know.
func VerifyWebhook(secret string, header http.Header, body []byte) (event api.Event, err error) {
	return verifyWebhook(secret, header, body, time.Now())
}

func verifyWebhook(secret string, header http.Header, body []byte, now time.Time) (event api.Event, err error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 {
		return event, errors.New("the webhook's secret: want whsec_ and base64 of 24 bytes or more")
	}
	id, at := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return event, errors.New("the header webhook-timestamp: want seconds")
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > webhookAge || age < -webhookAge {
		return event, fmt.Errorf("the header webhook-timestamp: %s from now; want %s at most", age.Round(time.Second),
			webhookAge)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	for signature := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		text, ok := strings.CutPrefix(signature, "v1,")
		if given, err := base64.StdEncoding.DecodeString(text); ok && err == nil && hmac.Equal(given, want) {
			err := json.Unmarshal(body, &event)
			if err == nil && event.ID != id {
				err = fmt.Errorf("the body is of the event %q, the header webhook-id says %q", event.ID, id)
			}
			return event, err
		}
	}
	return event, errors.New("the header webhook-signature: none of its signatures is of this secret and body")
}

// Token is what a buyer's token says. Buyer and TTL are needed.
type Token struct {
	Buyer sluice.BuyerID
	TTL   time.Duration   // servers refuse tokens for longer than 31 days
	Sales []sluice.SaleID // those that the shop invites the buyer to; none: those for all
	// Issuer and Audience, for servers that ask for them (buyer_issuer, buyer_audience).
	Issuer, Audience string
	// Signed is what else the shop says of the buyer, by name, for sales that have limits by it:
	// "household", say.
	Signed map[string]string
}

// BuyerToken returns a buyer's token (a JWT, HS256), signed with the buyer secret. It is for
// the shop's backend, after its login: the secret must not go to a browser.
func BuyerToken(secret string, t Token) (string, error) {
	if err := t.Buyer.Validate(); err != nil {
		return "", err
	}
	if secret == "" || t.TTL <= 0 {
		return "", errors.New("want the buyer secret, and a time to live")
	}
	now, all := time.Now(), map[string]any{}
	for name, value := range t.Signed {
		if !sluice.Limitable(name) {
			return "", fmt.Errorf("signed: no sale can have a limit by %q", name)
		}
		all[name] = value
	}
	all["sub"], all["iat"], all["exp"] = t.Buyer, now.Unix(), now.Add(t.TTL).Unix()
	if len(t.Sales) > 0 {
		all["sluice_sales"] = t.Sales
	}
	for name, value := range map[string]string{"iss": t.Issuer, "aud": t.Audience} {
		if value != "" {
			all[name] = value
		}
	}
	claims, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(claims)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil)), nil
}
