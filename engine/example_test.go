package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/sluicehq/sluice/engine"
)

// An engine in ten lines: open it, mount its handler, close it.
func Example() {
	dir, _ := os.MkdirTemp("", "sluice-example-")
	defer os.RemoveAll(dir)

	e, err := engine.Open(context.Background(), engine.Config{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close(context.Background())
	shop := httptest.NewServer(e.Handler())
	defer shop.Close()

	request, _ := http.NewRequest("POST", shop.URL+"/v1/admin/sales", strings.NewReader(`{
		"id": "phone", "sku": "PHONE-1", "title": "A phone", "price": {"amount": 99900, "currency": "CNY"},
		"total": 1000, "max_per_buyer": 1, "opens_at": "2026-11-11T12:00:00Z", "closes_at": null
	}`))
	request.Header.Set("Authorization", "Bearer "+e.AdminKey())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	response.Body.Close()
	fmt.Println(response.Status)
	// Output: 201 Created
}
