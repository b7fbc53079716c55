// Command ownstore is a shop with a store of its own: each batch of orders also goes into the
// shop's books. Run it, and it sells one unit to itself.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// books is a store that adds something to another one: of all methods it has its own Insert.
// A store from nothing has them all, and passes store/storetest.
type books struct{ sluice.Store }

// Unwrap lets an engine find what else the inner store can do.
func (b books) Unwrap() sluice.Store { return b.Store }

// Insert may be called again with the same entries after a crash, so the books are kept by order.
func (b books) Insert(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (sluice.Stored, error) {
	stored, err := b.Store.Insert(ctx, sale, entries)
	if err != nil {
		return stored, err
	}
	for _, entry := range entries {
		for _, claim := range entry.Claims {
			fmt.Println("in the books:", claim.Order, claim.Buyer, claim.Quantity)
		}
	}
	return stored, nil
}

func init() {
	sluice.RegisterStore(sluice.StoreDriver{
		Kind: "books", Schemes: []string{"books"}, Own: true,
		Open: func(ctx context.Context, url string, _ bool) (sluice.Store, error) {
			inner, err := sqlitestore.Open(ctx, url[len("books:"):], sqlitestore.Options{})
			return books{inner}, err
		},
	})
}

func main() {
	if err := sell(context.Background()); err != nil {
		log.SetFlags(0)
		log.Println("ownstore:", err)
		os.Exit(1)
	}
}

func sell(ctx context.Context) error {
	e, err := engine.Open(ctx, engine.Config{DataDir: "./shop-data", Store: "books:./books.db"})
	if err != nil {
		return err
	}
	sale := sluice.NewSale(10, 1)
	sale.ID, sale.SKU, sale.Title, sale.OpensAt = "phone", "PHONE-1", "A phone", time.Now()
	sale.Price = sluice.Money{Amount: 99900, Currency: "CNY"}
	if _, err := e.Control().Create(ctx, sale); err != nil {
		return err
	}
	claim := sluice.Claim{Buyer: "ann", Key: "first-attempt", Quantity: 1}
	decision, err := e.Claim(ctx, sale.ID, claim, engine.Caller{})
	fmt.Println("decided:", decision.Code, decision.Order)
	if err != nil {
		return err
	}
	return e.Close(ctx) // stores what is accepted
}
