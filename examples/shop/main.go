// Command shop is an EXAMPLE of a shop with Sluice in it, to be clicked
// through: http://127.0.0.1:8081 is the shop (login, product, payment),
// http://127.0.0.1:8080 has the pages of the sale.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/examples/shop/merchant"
)

const (
	pages = "http://127.0.0.1:8080"
	shop  = "http://127.0.0.1:8081"
)

func main() {
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Config{
		DataDir: "./shop-data",
		Pages:   engine.Pages{LoginURL: shop + "/login?return={return}", PayURL: shop + "/pay?order={order}"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)

	_, err = e.Control().Create(ctx, sluice.Sale{
		ID: sluice.SaleID("lamp-" + time.Now().UTC().Format("20060102-150405")), SKU: "LAMP-1", Title: "Aurora desk lamp",
		Price: sluice.Money{Amount: 19900, Currency: "CNY"}, ListPrice: sluice.Money{Amount: 29900, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 3, MaxPerBuyer: 1, MaxOrders: 10,
			OpensAt: time.Now().Add(time.Minute).Truncate(time.Millisecond).UTC(),
		},
		PaymentWindow: 2 * time.Minute, PaymentGrace: sluice.DefaultPaymentGrace,
	})
	if err != nil && !errors.Is(err, sluice.ErrSaleExists) {
		log.Fatal(err)
	}
	m, err := merchant.New(merchant.Options{Pages: pages, BuyerSecret: e.BuyerSecret(), AdminKey: e.AdminKey()})
	if err != nil {
		log.Fatal(err)
	}
	own := &http.Server{Addr: "127.0.0.1:8081", Handler: m, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	go func() { log.Fatal(own.ListenAndServe()) }()
	log.Println("a sale opens in a minute; start at " + shop)
	server := e.NewServer() // with its limits of time and connections
	server.Addr = "127.0.0.1:8080"
	log.Println(server.ListenAndServe())
}
