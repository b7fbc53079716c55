// Package webhook posts events to a merchant's endpoints by the Standard
// Webhooks specification (https://www.standardwebhooks.com): the headers
// webhook-id, webhook-timestamp and webhook-signature.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// Sign returns the signature of a message: "v1," and the base64 of the
// HMAC-SHA256 of id, timestamp in seconds and body, with dots in between.
func Sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
