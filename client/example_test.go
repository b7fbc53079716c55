package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// A shop's backend claims for a buyer. Place sends the claim again while nothing is decided;
// with the key of the attempt, a later process can do so as well.
func ExampleClient_Place() {
	token, err := client.BuyerToken("the server's buyer secret", client.Token{Buyer: "u-42", TTL: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	buyer, err := client.New("http://127.0.0.1:8080", client.Options{Token: token})
	if err != nil {
		log.Fatal(err)
	}
	key := client.NewKey() // keep it until the attempt is decided
	placed, err := buyer.Place(context.Background(), "phone", key, api.PlaceOrder{Quantity: 1})
	switch {
	case err == nil:
		fmt.Println("order", placed.OrderID)
	case client.CodeOf(err) == "sold_out":
		fmt.Println("sold out")
	case errors.As(err, new(*client.OutcomeUnknownError)):
		fmt.Println("ask again with the same key")
	}
}

// What the program did about an event, and the event's id, belong into one transaction.
func ExampleClient_AllEvents() {
	shop, err := client.New("http://127.0.0.1:8080", client.Options{AdminKey: "a key with the role viewer"})
	if err != nil {
		log.Fatal(err)
	}
	last := "" // as the program has kept it
	for event, err := range shop.AllEvents(context.Background(), last) {
		if err != nil {
			log.Println(err) // AllEvents asks again, unless that cannot help
			continue
		}
		fmt.Println(event.ID, event.Type)
	}
}

func ExampleClient_FollowSale() {
	anyone, err := client.New("http://127.0.0.1:8080", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for sale, err := range anyone.FollowSale(context.Background(), "phone") {
		if err != nil {
			log.Println(err)
			continue
		}
		fmt.Println(sale.State)
	}
}

// A wrong secret, a changed body or an old message is an error.
func ExampleVerifyWebhook() {
	_, err := client.VerifyWebhook("whsec_c2VjcmV0LW9mLXRoZS13ZWJob29rLTEyMzQ=", http.Header{}, []byte(`{}`))
	fmt.Println(err != nil)
	// Output: true
}
