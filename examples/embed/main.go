// Command embed is a shop with Sluice inside: one process, no other server.
// Run it, then open http://127.0.0.1:8080/v1/sales.
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/sluicehq/sluice/engine"
)

func main() {
	e, err := engine.Open(context.Background(), engine.Config{DataDir: "./shop-data"})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(context.Background())

	http.Handle("/v1/", e.Handler()) // beside the shop's own pages
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("the shop\n")) })
	server := e.NewServer() // with its limits of time and connections
	server.Addr, server.Handler = "127.0.0.1:8080", http.DefaultServeMux
	log.Println(server.ListenAndServe())
}
