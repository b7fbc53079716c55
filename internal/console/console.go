// Package console is what people look at on the night of a sale: pages at /admin, for those who have a key of an
// admin. All of it works without script, but for the charts; with script the page of a sale is live (live.go).
//
// It calls the API of its own server for everything but the bytes of pictures, with the rights of the admin who has
// signed in (api.go). What an admin can do to a sale, its lists of buyers, an order, a dead letter or a webhook stands
// in one table (actions.go, lists.go); before each action a page says once what will happen.
package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/figures"
)

// Options are what a Console is made of. API and Admins are needed.
type Options struct {
	// Base is the path under which the shop serves all this, without a slash at its end; empty: none. Requests come
	// without it.
	Base   string
	API    http.Handler // the API, without Base
	Admins *auth.Admins
	// Secret is what all servers of the sales share, and no admin and no backend knows all of, so that each reads the
	// others' sessions and nobody makes one.
	Secret string
	// Style is the pages' style sheet, which the console's own follows.
	Style string
	// Picture returns a sale's picture that was uploaded, as a small JPEG. sluice.ErrNoPicture.
	Picture func(ctx context.Context, sale sluice.SaleID, picture string) ([]byte, error)
	Now     func() time.Time // default: time.Now
}

// Console answers GET and POST of /admin and what is below it. It is safe for concurrent use.
type Console struct {
	Options
	mux      *http.ServeMux
	sessions *sessions
	client   *client.Client // of who has signed in, by the context
	tmpl     *template.Template
	forged   *http.CrossOriginProtection
	assets   map[string]asset
	build    string
	live     *live
	pictures chan struct{} // has one of each that is being read
	uploads  *turns
	exports  *turns
}

//go:embed templates static
var files embed.FS

// New returns a Console.
func New(o Options) *Console {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Console{
		Options: o, mux: http.NewServeMux(), sessions: newSessions(o.Secret, o.Admins, o.Now),
		client: newClient(o.API, ""), forged: http.NewCrossOriginProtection(), pictures: make(chan struct{}, mostPictures),
		uploads: newTurns(mostUploads, 1), exports: newTurns(mostExports, 1),
	}
	c.loadAssets()
	c.live = newLive(c)
	c.tmpl = template.Must(template.New("").Funcs(template.FuncMap{
		"asset": c.asset, "thousands": figures.Thousands[int64], "money": figures.Money, "deref": deref,
		"json": func(v any) (string, error) { text, err := json.Marshal(v); return string(text), err },
		"on":   func(v *visit, it any) onPage { return onPage{v, it} },
	}).ParseFS(files, "templates/*.html"))
	c.routes()
	return c
}

// page makes what one page shows: the name of its template, and what that is given.
type page func(*visit) (template string, body any, err error)

func (c *Console) routes() {
	c.mux.HandleFunc("GET /admin/assets/{build}/{file}", c.serveAsset)
	c.mux.HandleFunc("GET /admin/sales/{id}/live", c.stream)
	c.mux.HandleFunc("GET /admin/sales/{id}/curve.csv", c.curveCSV)
	c.mux.HandleFunc("GET /admin/sales/{id}/pictures/{picture}", c.picture)
	c.mux.HandleFunc("GET /admin/orders.csv", c.exportOrders)
	c.mux.HandleFunc("POST /admin/sign-in", c.signIn)
	c.mux.HandleFunc("POST /admin/sign-out", c.signOut)
	for pattern, show := range map[string]page{
		"GET /admin": sales, "GET /admin/{$}": sales, "GET /admin/sales": sales, "GET /admin/sales/{id}": sale,
		"GET /admin/new": newSale, "GET /admin/sales/{id}/edit": editSale,
		"GET /admin/sales/{id}/audit": saleAudit, "GET /admin/sales/{id}/report": report,
		"GET /admin/lists/{id}": buyers, "GET /admin/orders": orders, "GET /admin/orders/{id}": order,
		"GET /admin/status":       status,
		"GET /admin/dead-letters": letters, "GET /admin/webhooks": webhooks, "GET /admin/log": log,
	} {
		c.mux.HandleFunc(pattern, c.show(show))
	}
	c.mux.HandleFunc("POST /admin/sales", c.submit("created", 0, createSale))
	c.mux.HandleFunc("POST /admin/sales/{id}/edit", c.submit("changed", 0, changeSaleTo))
	c.mux.HandleFunc("POST /admin/sales/{id}/pictures", c.submit("picture", sluice.Owner, addPicture))
	for _, k := range kinds {
		for i := range k.actions {
			a := &k.actions[i]
			path := " /admin/" + k.path + "/{id}/" + a.Name
			c.mux.HandleFunc("GET"+path, c.show(func(v *visit) (string, any, error) { return v.ask(k, a) }))
			c.mux.HandleFunc("POST"+path, c.act(k, a))
		}
	}
	c.mux.HandleFunc("/admin/", c.show(func(*visit) (string, any, error) { return "", nil, errNoPage }))
}

// policy lets a page load its own style and script, ask its own server, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		w.Header().Set(name, value)
	}
	if lang := r.URL.Query().Get("lang"); lang == "en" || lang == "zh" {
		(&visit{c: c, w: w, r: r}).cookieOf(langCookie, lang, 365*24*3600)
	}
	if err := c.forged.Check(r); err != nil {
		v := c.visit(w, r)
		v.render(http.StatusForbidden, "trouble.html", v.trouble(errForged))
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // what is left of it would ask for something else
		v := c.visit(w, r)
		v.render(http.StatusBadRequest, "trouble.html", v.trouble(errAddress))
		return
	}
	c.mux.ServeHTTP(w, r)
}

const (
	langCookie = "sluice_console_lang"
	didCookie  = "sluice_console_did" // what was done just now: said once
)

// onPage is what a part of a page is given: its subject, and the visit.
type onPage struct {
	V  *visit
	It any
}

// visit is one request, and what every template is given.
type visit struct {
	c *Console
	w http.ResponseWriter
	r *http.Request

	ctx    context.Context // of calls of the API
	cookie string
	did    string
	told   *api.Status // nil: not asked yet

	Lang  string // en or zh-CN
	Admin auth.Admin
	Body  any
}

func (c *Console) visit(w http.ResponseWriter, r *http.Request) *visit {
	v := &visit{c: c, w: w, r: r, Lang: language(r)}
	for _, cookie := range r.CookiesNamed(cookieName) { // another host of the domain may have set one
		if admin, ok := c.sessions.read(cookie.Value); ok {
			v.Admin, v.cookie = admin, cookie.Value
			break
		}
	}
	if cookie, err := r.Cookie(didCookie); err == nil && r.Method == http.MethodGet {
		v.did = cookie.Value
		v.cookieOf(didCookie, "", -1)
	}
	v.ctx = asking(w, r, v.Admin)
	return v
}

// language is that of the address, of the cookie, or of the browser.
func language(r *http.Request) string {
	said := r.URL.Query().Get("lang")
	if cookie, err := r.Cookie(langCookie); err == nil {
		said = cmp.Or(said, cookie.Value)
	}
	if cmp.Or(said, strings.ToLower(r.Header.Get("Accept-Language"))) == "zh" ||
		said == "" && strings.HasPrefix(strings.ToLower(r.Header.Get("Accept-Language")), "zh") {
		return "zh-CN"
	}
	return "en"
}

// T is a text in the visitor's language.
func (v *visit) T(en, zh string) string {
	if v.Lang == "en" {
		return en
	}
	return zh
}

// Say is T of a text of the program.
func (v *visit) Say(t text) string { return v.T(t.EN, t.ZH) }

// text is in both languages.
type text struct{ EN, ZH string }

// Path is the address of a page, from /admin on.
func (v *visit) Path(parts ...string) string {
	return v.c.Base + "/admin" + strings.Join(append([]string{""}, parts...), "/")
}

// At reports whether the page is in this part of the console.
func (v *visit) At(part string) bool {
	return v.r.URL.Path == "/admin/"+part || strings.HasPrefix(v.r.URL.Path, "/admin/"+part+"/")
}

// Here is the page itself, in another language.
func (v *visit) Here(lang string) string {
	query := v.r.URL.Query()
	query.Set("lang", lang)
	return v.c.Base + v.r.URL.Path + "?" + query.Encode()
}

// Token goes with every form.
func (v *visit) Token() string { return v.c.sessions.token(v.cookie) }

// May reports whether the visitor's role is enough.
func (v *visit) May(needed sluice.Role) bool { return v.Admin.Role.May(needed) }

// Query is a part of the address.
func (v *visit) Query(name string) string { return v.r.URL.Query().Get(name) }

// Done is what was done just now, empty if nothing was.
func (v *visit) Done() string {
	for _, k := range kinds {
		for i := range k.actions {
			if a := &k.actions[i]; v.did == k.path+"-"+a.Name {
				return v.Say(a.Did)
			}
		}
	}
	return v.Say(said[v.did])
}

// flash has the next page say what was done.
func (v *visit) flash(did string) { v.cookieOf(didCookie, did, 60) }

// Now is the server's time.
func (v *visit) Now() time.Time { return v.c.Now() }

// show is the handler of a page. A visitor who has not signed in sees the form for that.
func (c *Console) show(make page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		if !v.signedIn() {
			return
		}
		name, body, err := make(v)
		if err != nil {
			v.fail(err)
			return
		}
		v.render(http.StatusOK, name, body)
	}
}

// signedIn reports whether the visitor has signed in, and answers with the form for that otherwise.
func (v *visit) signedIn() bool {
	if v.Admin.Role != 0 {
		return true
	}
	var why any
	if v.r.Method == http.MethodPost {
		why = v.T("You are not signed in any more, and nothing was changed. Sign in, and fill in the form again.",
			"登录已失效，没有改动任何东西。请登录后重新填写表单。")
	}
	v.render(http.StatusUnauthorized, "signin.html", why)
	return false
}

var (
	errNoPage   = errors.New("there is no such page")
	errTooLarge = errors.New("this is too large")
	errAddress  = errors.New("the part of the address behind the question mark cannot be read")
	errBusy     = errors.New("no more of this is done at a time")
	errRole     = errors.New("the key's role does not allow this")

	errUnreadable = errors.New("this is no form, or not in UTF-8")
	errForged     = errors.New("this came from another site's page, or from one that is too old; load the page again")
)

// fail says what went wrong, in the words of the API.
func (v *visit) fail(err error) { v.render(statusOf(err), "trouble.html", v.trouble(err)) }

func statusOf(err error) int {
	problem := (*client.Error)(nil)
	switch {
	case errors.As(err, &problem) && problem.Status >= 400:
		return problem.Status
	case errors.Is(err, errNoPage), errors.Is(err, sluice.ErrNoPicture):
		return http.StatusNotFound
	case errors.Is(err, errForged), errors.Is(err, errRole):
		return http.StatusForbidden
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable
	case errors.Is(err, errUnreadable), errors.Is(err, errAddress):
		return http.StatusBadRequest
	}
	return http.StatusBadGateway
}

// trouble is what is wrong, as trouble.html wants it.
func (v *visit) trouble(err error) any {
	switch {
	case errors.Is(err, errNoPage):
		return v.T("There is no such page.", "没有这个页面。")
	case errors.Is(err, errTooLarge):
		return v.T("That is too large: a picture may have 10 MB, a file of buyers 15 MB, and each text 1 MB. "+
			"Nothing was changed.",
			"内容太大：图片最大 10 MB，买家名单文件最大 15 MB，文字最大 1 MB。没有改动任何东西。")
	case errors.Is(err, errAddress):
		return v.T("The part of the address behind the question mark cannot be read, or asks for what this page does not "+
			"have.", "网址中问号后面的部分无法识别，或者此页面没有所求的内容。")
	case errors.Is(err, errBusy):
		return v.T("You have one of these under way, or others have, and the server does no more at a time. Nothing was "+
			"changed: try again in a minute.",
			"你或其他人正在上传或导出，服务器暂时不再接受更多。没有改动任何东西，请一分钟后再试。")
	case errors.Is(err, errRole):
		return v.T("The role of your key does not allow this.", "你的密钥的角色不允许此操作。")
	case errors.Is(err, errUnreadable):
		return v.T("This is not a form in UTF-8, or it is damaged. Nothing was changed.",
			"表单已损坏，或不是 UTF-8。没有改动任何东西。")
	case errors.Is(err, errForged):
		return v.T("This form came from another site, or from a page that is too old. Nothing was changed: load it again.",
			"这个表单来自别的网站，或来自过期的页面。没有改动任何东西，请重新打开页面。")
	}
	return err.Error()
}

// render answers with a page.
func (v *visit) render(status int, name string, body any) {
	v.Body = body
	var b bytes.Buffer
	if err := v.c.tmpl.ExecuteTemplate(&b, name, v); err != nil {
		panic(err) // a template that does not fit its page: a bug
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes())
}

// signIn takes a key. The API says whether it is one, and meters guesses.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	key := strings.TrimSpace(r.PostFormValue("key"))
	if key == "" {
		v.render(http.StatusUnauthorized, "signin.html", v.T("Please give a key.", "请填写密钥。"))
		return
	}
	ctx := context.WithValue(r.Context(), fromKey{}, origin{r, w})
	_, err := newClient(c.API, key).AdminActions(ctx, 1, "")
	admin, ok := c.Admins.Find(key)
	status := statusOf(err)
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	if err != nil && (!ok || refused) { // with any other error the key is right, and the database silent
		v.render(status, "signin.html", err.Error())
		return
	}
	v.cookieOf(cookieName, c.sessions.begin(admin), int(lasts.Seconds()))
	http.Redirect(w, r, v.to(), http.StatusSeeOther)
}

// To is where to go from the form for signing in: to the page that the visitor asked for. The body of another form is
// not read for it: a stranger may have sent it.
func (v *visit) To() string {
	switch {
	case v.r.Method == http.MethodGet:
		return v.c.Base + v.r.URL.RequestURI()
	case v.r.URL.Path == "/admin/sign-in":
		return v.to()
	}
	return v.Path()
}

// to is the page that the visitor asked for before signing in, if it is one of the console's.
func (v *visit) to() string {
	to, err := url.Parse(v.r.PostFormValue("to"))
	if err != nil || to.IsAbs() || to.Host != "" || path.Clean(to.Path) != to.Path ||
		!strings.HasPrefix(to.Path, v.Path()+"/") {
		return v.Path()
	}
	return to.RequestURI()
}

// maxForm bounds a form without a file, in bytes: that of a sale has descriptions.
const maxForm = 1 << 20

// signOut ends the session.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	if _, err := v.ours(0); err != nil && v.Admin.Role != 0 {
		v.fail(err)
		return
	}
	if v.cookie != "" {
		c.sessions.end(v.cookie)
	}
	v.cookieOf(cookieName, "", -1)
	http.Redirect(w, r, v.Path(), http.StatusSeeOther)
}

// A form with a file is held in memory: mostUploads of maxUpload bytes at a time, one of each admin. Each may take its
// time, and so may what is done with it.
const (
	mostUploads = 2
	maxUpload   = 16 << 20
	uploading   = 2 * time.Minute
)

// ours reads a form. It fails unless the console has made it for this session. With a role it is one with a file, which
// takes a turn; what is returned ends that.
func (v *visit) ours(uploader sluice.Role) (end func(), err error) {
	most, end := int64(maxForm), func() {}
	switch {
	case v.Admin.Role == 0:
		return end, errForged
	case uploader == 0:
	case !v.May(uploader):
		return end, errRole
	default:
		turn := v.c.uploads.take(v.Admin.Name)
		if turn == nil {
			return end, errBusy
		}
		most, end = maxUpload, turn
		control, until := http.NewResponseController(v.w), time.Now().Add(uploading)
		_ = control.SetReadDeadline(until)
		_ = control.SetWriteDeadline(until.Add(uploading))
	}
	return end, v.read(most)
}

// read reads a form of at most so many bytes, and knows it by its token.
func (v *visit) read(most int64) error {
	if !strings.HasPrefix(v.r.Header.Get("Content-Type"), "multipart/") {
		most = maxForm
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, most)
	err := v.r.ParseForm() // ParseMultipartForm hides its errors
	if err == nil {
		err = v.r.ParseMultipartForm(most) // in memory: where a server runs there may be no folder for files
	}
	_, beyond := errors.AsType[*http.MaxBytesError](err)
	switch {
	case beyond, errors.Is(err, multipart.ErrMessageTooLarge):
		return errTooLarge
	case err != nil && !errors.Is(err, http.ErrNotMultipart):
		return errUnreadable
	case v.r.PostFormValue("token") != v.Token():
		return errForged
	}
	if _, still := v.c.sessions.read(v.cookie); !still { // it has ended while the form came
		return errForged
	}
	for _, values := range v.r.PostForm {
		switch text := strings.Join(values, ""); {
		case len(text) > maxForm:
			return errTooLarge
		case !utf8.ValidString(text):
			return errUnreadable
		}
	}
	return nil
}
