package httpapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/sluicehq/sluice"
)

// defaultPage is how many rows a page of a list has, unless asked otherwise.
const defaultPage = 100

// parameter is one of a query string. It reads a value that is not empty, or
// says what would be right.
type parameter struct {
	name string
	read func(value string) error
}

// readQuery reads the query string. Other parameters are errors, and repeated
// ones.
func readQuery(r *http.Request, parameters ...parameter) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("the query string cannot be read")
	}
	var names []string
	for _, p := range parameters {
		names = append(names, p.name)
	}
	for name, values := range query {
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return badRequest("%q: unknown parameter; want some of %v", name, names)
		case len(values) != 1:
			return badRequest("%s: stands more than once", name)
		case values[0] == "":
			continue
		}
		if err := parameters[i].read(values[0]); err != nil {
			return badRequest("%s: %v", name, err)
		}
	}
	return nil
}

func pageSize(at *int) parameter {
	*at = defaultPage
	return parameter{"limit", func(value string) (err error) {
		if *at, err = strconv.Atoi(value); err != nil || *at < 1 || *at > sluice.MaxPage {
			return fmt.Errorf("want 1 to %d", sluice.MaxPage)
		}
		return nil
	}}
}

// cursor is one that the store reads.
func cursor(at *string) parameter {
	return parameter{"cursor", func(value string) error {
		*at = value
		return nil
	}}
}

const wrongCursor = "want the next_cursor of the page before"

// buyerCursor is the last buyer of the page before.
func buyerCursor(at *sluice.BuyerID) parameter {
	return parameter{"cursor", func(value string) error {
		id, err := base64.RawURLEncoding.DecodeString(value)
		if *at = sluice.BuyerID(id); err != nil || at.Validate() != nil {
			return errors.New(wrongCursor)
		}
		return nil
	}}
}

// ofSale, ofStatus and ofBuyer narrow a list down.
func ofSale(at *sluice.SaleID) parameter {
	return parameter{"sale", func(value string) error {
		*at = sluice.SaleID(value)
		return at.Validate()
	}}
}

func ofBuyer(at *sluice.BuyerID) parameter {
	return parameter{"buyer", func(value string) error {
		*at = sluice.BuyerID(value)
		return at.Validate()
	}}
}

func ofStatus(at *sluice.Status) parameter {
	return parameter{"status", func(value string) error {
		if *at = sluice.Status(value); !slices.Contains(sluice.Statuses(), *at) {
			return fmt.Errorf("%q: want one of %v", value, sluice.Statuses())
		}
		return nil
	}}
}
