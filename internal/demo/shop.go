package demo

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// ShopOptions are what the mock shop needs of its Sluice server; all are
// needed.
type ShopOptions struct {
	Pages       string // URL of the server and its pages, like http://127.0.0.1:8080
	BuyerSecret string // signs buyers' tokens
	AdminKey    string
	Crowd       func() // sends a crowd; nil: the page offers none
}

//go:embed shop.html
var templates embed.FS

var page = template.Must(template.New("shop.html").Funcs(template.FuncMap{
	"money": func(amount int64, currency string) string {
		return fmt.Sprintf("%d.%02d %s", amount/100, amount%100, currency)
	},
}).ParseFS(templates, "shop.html"))

type shop struct {
	ShopOptions
	sluice *client.Client
}

// NewShop returns a mock shop, an EXAMPLE only: every visitor may log in under
// any name, and no money moves. It has what a shop needs for Sluice's pages: a
// login that mints buyers' tokens and hands them over, links to the sales, and
// a payment that is reported to the merchant's API. It links to itself by
// relative paths, so it may be mounted anywhere.
func NewShop(o ShopOptions) (http.Handler, error) {
	o.Pages = strings.TrimRight(o.Pages, "/")
	c, err := client.New(o.Pages, client.Options{AdminKey: o.AdminKey})
	if err != nil {
		return nil, err
	}
	s := &shop{ShopOptions: o, sluice: c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("GET /login", s.askLogin)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("GET /as/{name}", s.signInAs)
	mux.HandleFunc("POST /crowd", s.sendCrowd)
	mux.HandleFunc("GET /crowd", func(w http.ResponseWriter, _ *http.Request) {
		s.show(w, http.StatusOK, content{Sent: true})
	})
	mux.HandleFunc("GET /pay", s.askPay)
	mux.HandleFunc("POST /pay", s.pay)
	return http.NewCrossOriginProtection().Handler(mux), nil
}

// content is what the page shows: one of the four.
type content struct {
	Pages   string
	Sales   any    // home
	Return  string // login
	Order   any    // pay
	Problem string
	Crowd   bool // there is one to be sent
	Sent    bool // it is on its way
}

func (s *shop) show(w http.ResponseWriter, status int, c content) {
	c.Pages, c.Crowd = s.Pages, s.Crowd != nil
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = page.Execute(w, c)
}

func (s *shop) home(w http.ResponseWriter, r *http.Request) {
	sales, err := s.sluice.Sales(r.Context())
	if err != nil {
		s.show(w, http.StatusBadGateway, content{Problem: err.Error()})
		return
	}
	s.show(w, http.StatusOK, content{Sales: sales})
}

// returnTo accepts only the pages of our own Sluice server: any other address
// would get the buyer's token. It keeps the query, whose state shows the page
// that its own browser began this login.
func (s *shop) returnTo(r *http.Request) string {
	to := r.FormValue("return")
	if u, err := url.Parse(to); err == nil && u.Fragment == "" && strings.HasPrefix(to, s.Pages+"/") {
		return to
	}
	return s.Pages + "/"
}

func (s *shop) askLogin(w http.ResponseWriter, r *http.Request) {
	s.show(w, http.StatusOK, content{Return: s.returnTo(r)})
}

func (s *shop) login(w http.ResponseWriter, r *http.Request) {
	s.handOver(w, r, sluice.BuyerID(strings.TrimSpace(r.FormValue("name"))))
}

// signInAs logs in by a link.
func (s *shop) signInAs(w http.ResponseWriter, r *http.Request) {
	s.handOver(w, r, sluice.BuyerID(r.PathValue("name")))
}

// sendCrowd has another crowd come.
func (s *shop) sendCrowd(w http.ResponseWriter, r *http.Request) {
	if s.Crowd == nil {
		s.show(w, http.StatusNotFound, content{Problem: "There is no crowd here."})
		return
	}
	s.Crowd()
	http.Redirect(w, r, "crowd", http.StatusSeeOther) // so that another look at the page sends no other one
}

// handOver hands the token over in the fragment: browsers send it to no server,
// and no log has it.
func (s *shop) handOver(w http.ResponseWriter, r *http.Request, buyer sluice.BuyerID) {
	if err := buyer.Validate(); err != nil {
		s.show(w, http.StatusBadRequest, content{Return: s.returnTo(r), Problem: "Please give a name of up to 128 bytes."})
		return
	}
	token, err := loadgen.Mint([]byte(s.BuyerSecret), buyer, time.Now(), time.Hour) // a JWT, HS256
	if err != nil {
		s.show(w, http.StatusInternalServerError, content{Return: s.returnTo(r), Problem: err.Error()})
		return
	}
	// 303: the browser follows with GET. The header keeps the page out of caches.
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, s.returnTo(r)+"#token="+token, http.StatusSeeOther)
}

func (s *shop) askPay(w http.ResponseWriter, r *http.Request) {
	order, err := s.sluice.AdminOrder(r.Context(), sluice.OrderID(r.FormValue("order")))
	if err != nil {
		s.show(w, http.StatusNotFound, content{Problem: err.Error()})
		return
	}
	s.show(w, http.StatusOK, content{Order: order})
}

// pay is what a shop does when its payment provider says that the money has
// come. The id of the payment makes a repeated call safe.
func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	id := sluice.OrderID(r.FormValue("order"))
	order, err := s.sluice.PayOrder(r.Context(), id, "mock-"+string(id))
	var refused *client.Error
	switch {
	case errors.As(err, &refused):
		s.show(w, http.StatusConflict, content{Problem: refused.Error()})
	case err != nil:
		s.show(w, http.StatusBadGateway, content{Problem: err.Error()})
	default:
		http.Redirect(w, r, s.Pages+"/o/"+url.PathEscape(string(order.OrderID)), http.StatusSeeOther)
	}
}
