package sqlcore

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A secret of a webhook is kept as sluice.SealedSecret and the base64 of nonce
// and AES-256-GCM of the secret's bytes, bound to the webhook's id: at most 126
// characters. Sealing protects a copy of the database, or of its backup.

var base64Sealed = base64.RawStdEncoding

// SealSecrets implements port.WebhookStore.
func (s *Store) SealSecrets(ctx context.Context, key string) (clear int, err error) {
	defer s.wrap(&err, "seal the webhooks' secrets")
	if key != "" {
		if s.sealer, err = newSealer(key); err != nil {
			return 0, err
		}
		if s.masks, err = newMasker(key); err != nil {
			return 0, err
		}
	}
	all, err := s.Webhooks(ctx)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	var foreign []string
	for _, w := range all {
		if strings.HasPrefix(w.Secret, sluice.SealedSecret) { // scanWebhook could not open it
			foreign = append(foreign, string(w.ID))
		}
	}
	for _, w := range all {
		// Each in its own transaction: another server may do the same at the same
		// moment.
		if err := s.change(ctx, func(tx *conn) error {
			w, err := scanWebhook(tx.row(sqlLockWebhook, w.ID))
			if err != nil || strings.HasPrefix(w.Secret, sluice.SealedSecret) {
				return err
			}
			if s.sealer == nil {
				clear++
				return nil
			}
			sealed, err := s.seal(w.ID, w.Secret)
			if err != nil {
				return err
			}
			return tx.set(sqlSetSecret, sealed, w.ID)
		}); err != nil {
			return clear, err
		}
	}
	if len(foreign) > 0 {
		err = fmt.Errorf("the secrets of %s are sealed with another key: "+
			"give every server the webhook_key that they were sealed with", strings.Join(foreign, ", "))
	}
	return clear, err
}

func newSealer(key string) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, []byte(key), nil, "sluice: secrets of webhooks", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal returns a secret as it is kept.
func (s *Store) seal(id sluice.WebhookID, secret string) (string, error) {
	if s.sealer == nil {
		return secret, nil
	}
	w := sluice.Webhook{Secret: secret}
	key, err := w.Key()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, s.sealer.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return sluice.SealedSecret + base64Sealed.EncodeToString(s.sealer.Seal(nonce, nonce, key, []byte(id))), nil
}

// unseal returns a secret as it is used. A secret that cannot be opened stays as it is
// kept, so that webhooks can be listed and deleted without it: Webhook.Key says
// then what is wrong.
func (s *Store) unseal(w *sluice.Webhook) {
	text, sealed := strings.CutPrefix(w.Secret, sluice.SealedSecret)
	if !sealed || s.sealer == nil {
		return
	}
	whole, err := base64Sealed.DecodeString(text)
	if err != nil || len(whole) < s.sealer.NonceSize() {
		return
	}
	size := s.sealer.NonceSize()
	if key, err := s.sealer.Open(nil, whole[:size], whole[size:], []byte(w.ID)); err == nil {
		w.SetKey(key)
	}
}

// masker makes pseudonyms. Nil has no key, and makes none.
type masker []byte

func newMasker(key string) (masker, error) {
	return hkdf.Key(sha256.New, []byte(key), nil, "sluice: pseudonyms of erased buyers", 32)
}

const (
	maskBuyer   = "buyer"
	maskKey     = "key"
	maskPayment = "payment"
)

// masked is what a pseudonym looks like. It is valid as a buyer's id and as a key.
var (
	masked     = regexp.MustCompile(`^erased-[0-9a-f]{32}$`)
	maskedMeta = regexp.MustCompile(`^\{"erased":"erased-[0-9a-f]{32}"\}$`)
)

// of is the pseudonym of a text; an empty text and a pseudonym stay as they are.
func (m masker) of(text string, context ...string) string {
	if m == nil || text == "" || masked.MatchString(text) {
		return text
	}
	h := hmac.New(sha256.New, m)
	h.Write([]byte(strings.Join(append(context, text), "\x00")))
	return "erased-" + hex.EncodeToString(h.Sum(nil)[:16])
}

func (m masker) buyer(id sluice.BuyerID) sluice.BuyerID {
	return sluice.BuyerID(m.of(string(id), maskBuyer))
}

// ofOrder is the pseudonym of a text that belongs to one order. Equal texts of two
// orders differ: a meta of few values could be guessed by how often it occurs.
func (m masker) ofOrder(order sluice.OrderID, kind, text string) string {
	return m.of(text, kind, string(order))
}

// key is the pseudonym of a claim's key.
func (m masker) key(order sluice.OrderID, key sluice.Key) sluice.Key {
	return sluice.Key(m.ofOrder(order, maskKey, string(key)))
}

// meta is the pseudonym of an order's meta, in the object that readers expect.
func (m masker) meta(order sluice.OrderID, meta string) string {
	if meta == "" || maskedMeta.MatchString(meta) {
		return meta
	}
	return `{"erased":"` + m.ofOrder(order, "meta", meta) + `"}`
}

// letter returns the claims of a dead letter without a buyer, or without any if
// none is given. A damaged letter in which the buyer's id occurs has nothing left.
func (m masker) letter(l *port.DeadLetter, buyer sluice.BuyerID) (claims string, changed bool) {
	if !strings.Contains(l.Claims, string(buyer)) {
		return l.Claims, false
	}
	parsed, err := port.ParseClaims(l.Claims)
	if err != nil {
		const nothing = "erased"
		return nothing, l.Claims != nothing
	}
	var lines []byte
	for i := range parsed {
		c := &parsed[i]
		if buyer == "" || c.Buyer == buyer {
			c.Buyer = m.buyer(c.Buyer)
			c.Key = m.key(c.Order, c.Key)
			c.Meta = m.meta(c.Order, c.Meta)
			c.Counters = "" // of an archived sale: nothing counts any more
		}
		lines = port.AppendClaim(lines, c)
	}
	return string(lines), string(lines) != l.Claims
}
