package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/auth"
)

// lasts is how long somebody stays signed in.
const lasts = 12 * time.Hour

// maxSignedOut bounds how many sessions that were ended early are remembered.
const maxSignedOut = 10_000

// sessions makes and reads the cookies of those who have signed in. A cookie has the name of the admin's
// key and when the session ends, signed with a secret of the servers and with the key's hash: it does not
// hold the key, any server with the same settings reads it, and it ends with its key.
type sessions struct {
	secret [sha256.Size]byte
	admins *auth.Admins
	now    func() time.Time

	mu  sync.Mutex
	out map[string]time.Time // the cookies of those who have signed out, until they would have ended
}

// session is what a cookie says.
type session struct {
	Name string `json:"n"`
	Ends int64  `json:"e"` // Unix seconds
	Salt string `json:"s"` // no two are alike
}

// newSessions derives its secret from one that all servers have.
func newSessions(secret string, admins *auth.Admins, now func() time.Time) *sessions {
	s := &sessions{admins: admins, now: now, out: map[string]time.Time{}}
	s.secret = sha256.Sum256([]byte("sluice console session\n" + secret))
	return s
}

// begin returns the cookie's value for an admin who has shown the key.
func (s *sessions) begin(admin auth.Admin) string {
	text, err := json.Marshal(session{admin.Name, s.now().Add(lasts).Unix(), rand.Text()})
	if err != nil {
		panic(err) // texts and numbers always are JSON
	}
	_, key, _ := s.admins.Of(admin.Name)
	payload := base64.RawURLEncoding.EncodeToString(text)
	return payload + "." + s.sign(payload, key)
}

// read returns whose cookie this is.
func (s *sessions) read(cookie string) (auth.Admin, bool) {
	payload, mac, _ := strings.Cut(cookie, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	var said session
	if err != nil || json.Unmarshal(text, &said) != nil {
		return auth.Admin{}, false
	}
	admin, key, ok := s.admins.Of(said.Name)
	right := subtle.ConstantTimeCompare([]byte(mac), []byte(s.sign(payload, key))) == 1
	s.mu.Lock()
	_, out := s.out[cookie]
	s.mu.Unlock()
	return admin, ok && right && !out && s.now().Unix() < said.Ends
}

// end ends a session on this server before its time.
func (s *sessions) end(cookie string) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, ends := range s.out {
		if !now.Before(ends) || len(s.out) >= maxSignedOut {
			delete(s.out, other)
		}
	}
	s.out[cookie] = now.Add(lasts)
}

// token is what a form of this session must send back, so that no other site's form is taken for one of ours.
func (s *sessions) token(cookie string) string { return s.sign("form\n"+cookie, s.secret) }

func (s *sessions) sign(text string, key [sha256.Size]byte) string {
	mac := hmac.New(sha256.New, s.secret[:])
	mac.Write(key[:])
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const cookieName = "sluice_console"

// cookieOf gives the browser a cookie for so many seconds, or takes it away. A browser says where a form was sent
// from, so a proxy with TLS is known without trusting it.
func (v *visit) cookieOf(name, value string, seconds int) {
	http.SetCookie(v.w, &http.Cookie{
		Name: name, Value: value, Path: v.c.Base + "/admin", MaxAge: seconds, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   v.r.TLS != nil || strings.HasPrefix(v.r.Header.Get("Origin"), "https://"),
	})
}
