// Command embed is a shop with Sluice inside. Run it, open http://127.0.0.1:8080/login?as=ann, and buy.
package main

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	e := must(engine.Open(ctx, engine.Config{DataDir: "./shop-data", BasePath: "/flash", Identify: visitor}))
	sale := sluice.NewSale(1000, 1) // one for each buyer
	sale.ID, sale.SKU, sale.Title, sale.OpensAt = "phone", "PHONE-1", "A phone", time.Now()
	sale.Price = sluice.Money{Amount: 99900, Currency: "CNY"}
	if _, err := e.Control().Create(ctx, sale); err != nil && !errors.Is(err, sluice.ErrSaleExists) {
		log.Fatal(err)
	}
	db := must(sql.Open("sqlite", "shop.db?_pragma=busy_timeout(5000)")) // the shop's own database
	must(db.Exec("CREATE TABLE IF NOT EXISTS heard (event TEXT UNIQUE, type TEXT, order_id TEXT)"))
	go func() {
		var last string // the last event that the shop has kept: after a restart it goes on there
		_ = db.QueryRow("SELECT event FROM heard ORDER BY rowid DESC LIMIT 1").Scan(&last)
		for event, err := range e.Events(ctx, last) {
			if log.Println(event.Type, event.Order.ID, err); err == nil {
				must(db.Exec("INSERT OR IGNORE INTO heard VALUES (?, ?, ?)", event.ID(), event.Type, event.Order.ID))
			}
		}
	}()
	mux := http.NewServeMux() // the shop's own pages
	mux.Handle("/flash/", e.PublicHandler())
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) { // a real shop signs its cookies
		http.SetCookie(w, &http.Cookie{Name: "visitor", Value: r.FormValue("as"), Path: "/", HttpOnly: true})
		http.Redirect(w, r, "/flash/s/phone", http.StatusSeeOther)
	})
	server := e.NewServer() // with limits of time and connections
	server.Addr, server.Handler = "127.0.0.1:8080", mux
	go func() { log.Println(server.ListenAndServe()); stop() }()
	<-ctx.Done()
	time.AfterFunc(engine.ShutdownTimeout, func() { log.Fatal("it takes too long; the journal has the rest") })
	log.Println(server.Shutdown(context.Background()), e.Close(context.Background())) // it stores what was accepted
}

func visitor(r *http.Request) (buyer sluice.BuyerID, _ error) {
	if cookie, err := r.Cookie("visitor"); err == nil {
		buyer = sluice.BuyerID(cookie.Value)
	}
	return buyer, nil // "": they have not signed in
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
