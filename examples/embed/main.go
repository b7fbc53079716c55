// Command embed is a shop with Sluice inside: one process, no other server. Run it, open
// http://127.0.0.1:8080/login?as=ann, and buy.
package main

import (
	"context"
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
	defer stop()
	e, err := engine.Open(ctx, engine.Config{DataDir: "./shop-data", BasePath: "/flash", Identify: visitor})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(context.Background())

	sale := sluice.NewSale(100)
	sale.ID, sale.SKU, sale.Title = "phone", "PHONE-1", "A phone"
	sale.Price, sale.MaxPerBuyer, sale.OpensAt = sluice.Money{Amount: 99900, Currency: "CNY"}, 1, time.Now()
	if _, err := e.Control().Create(ctx, sale); err != nil && !errors.Is(err, sluice.ErrSaleExists) {
		log.Fatal(err)
	}
	go func() { // a real shop keeps the id of the last event, and goes on after it
		for event, err := range e.Events(ctx, "") {
			log.Println(event.Type, event.Order.ID, event.Order.Buyer, err)
		}
	}()

	http.Handle("/flash/", e.PublicHandler()) // beside the shop's own pages
	http.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "visitor", Value: r.FormValue("as"), Path: "/", HttpOnly: true})
		http.Redirect(w, r, "/flash/s/phone", http.StatusSeeOther)
	})
	server := e.NewServer() // with its limits of time and connections
	server.Addr, server.Handler = "127.0.0.1:8080", http.DefaultServeMux
	done := make(chan error)
	context.AfterFunc(ctx, func() { done <- server.Shutdown(context.Background()) })
	log.Println(server.ListenAndServe())
	stop()
	<-done
}

// visitor is who is signed in to the shop. A real one signs its cookies.
func visitor(r *http.Request) (sluice.BuyerID, error) {
	cookie, err := r.Cookie("visitor")
	if err != nil {
		return "", nil
	}
	return sluice.BuyerID(cookie.Value), nil
}
