package storetest

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// Secrets of webhooks are kept encrypted, also those that were there in clear.
// Another key, or none, does not open them, and says so.
func testWebhookSecrets(t *testing.T, db Database) {
	const key = "0123456789abcdef0123456789abcdef"
	sealing := func(key string, clear int, fault string) port.Store {
		t.Helper()
		s := db.Open(t)
		got, err := s.SealSecrets(t.Context(), key)
		if (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Fatalf("seal: %v, want %q", err, fault)
		}
		if got != clear {
			t.Errorf("%d are in clear, want %d", got, clear)
		}
		return s
	}
	plain := db.Open(t)
	old := aWebhook("wh_old")
	long := aWebhook("wh_" + sluice.WebhookID(strings.Repeat("f", 24)))
	long.SetKey([]byte(strings.Repeat("k", 64)))
	must.Get(plain.CreateWebhook(t.Context(), old))(t)
	sealing("", 1, "")
	s := sealing(key, 0, "")
	if created, err := s.CreateWebhook(t.Context(), long); err != nil || created.Secret != long.Secret {
		t.Fatalf("%+v, %v", created, err)
	}
	// before a start seals what is in clear
	if got := getWebhook(t, plain, long.ID); !strings.HasPrefix(got.Secret, sluice.SealedSecret) {
		t.Errorf("a new webhook is kept as %q", got.Secret)
	}
	s = sealing(key, 0, "")
	for _, w := range []sluice.Webhook{old, long} {
		if got := getWebhook(t, s, w.ID); got.Secret != w.Secret {
			t.Errorf("%s: the secret is %q, want %q", w.ID, got.Secret, w.Secret)
		}
		if got := getWebhook(t, plain, w.ID); !strings.HasPrefix(got.Secret, sluice.SealedSecret) {
			t.Errorf("%s is kept as %q", w.ID, got.Secret)
		} else if _, err := got.Key(); err == nil || !strings.Contains(err.Error(), "webhook_key") {
			t.Errorf("%s: a sealed secret signs: %v", w.ID, err)
		}
	}
	if got := getWebhook(t, plain, old.ID).Secret; got == getWebhook(t, plain, long.ID).Secret {
		t.Errorf("both are kept as %q", got)
	}
	other := sealing("another key of the same good length", 0, string(old.ID))
	if got := getWebhook(t, other, old.ID); !strings.HasPrefix(got.Secret, sluice.SealedSecret) {
		t.Errorf("another key opens it: %q", got.Secret)
	}
	if got := getWebhook(t, s, old.ID); got.Secret != old.Secret {
		t.Errorf("another key has changed it: %q", got.Secret)
	}
	// A sealed secret is bound to its webhook.
	kept := getWebhook(t, plain, long.ID).Secret
	db.Execute(t, "UPDATE webhooks SET secret = '"+kept+"' WHERE id = '"+string(old.ID)+"'")
	if got := getWebhook(t, s, old.ID); got.Secret != kept {
		t.Errorf("the secret of one webhook opens as that of another: %q", got.Secret)
	}
}
