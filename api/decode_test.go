package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// requests are the messages that are read from clients.
func requests() []any {
	return []any{
		new(CreateSale), new(PatchSale), new(Restock), new(Reconcile), new(AskTicket), new(PayOrder), new(RejectOrder),
		new(ExtendOrder),
		new(CreateWebhook), new(ReplayWebhook),
	}
}

// What is said of a value that is wrong begins with its whole path, as it was
// written, and names nothing of the program.
func TestErrorsNameFieldsAsWritten(t *testing.T) {
	tried := 0
	for _, message := range requests() {
		root := reflect.TypeOf(message)
		for _, path := range leafPaths(root, "") {
			for _, wrong := range []string{`[[]]`, `{}`, `true`, `"x"`, `1.5`, `99999999999999999999`, `null`, `[1.5]`} {
				body := wrong
				steps := strings.Split(path, ".")
				for _, name := range slices.Backward(steps) {
					body = fmt.Sprintf(`{%q:%s}`, name, body)
				}
				err := Decode([]byte(body), reflect.New(root.Elem()).Interface())
				if err == nil || strings.HasSuffix(err.Error(), ": is missing") {
					continue // it may be so, and what is wrong is that others are missing
				}
				tried++
				at, _, _ := strings.Cut(err.Error(), ": ")
				if at != path && !strings.HasPrefix(at, path+"[") || namesGo(err.Error()) {
					t.Errorf("%T %s: %q; want it to begin with %q, and no name of a type", message, body, err, path)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d errors", tried)
	}
}

// leafPaths are the paths of all fields of a message, and of theirs.
func leafPaths(t reflect.Type, at string) (all []string) {
	fields := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path := join(at, name)
		all = append(all, path)
		if inner := strip(fields[name]); inner.Kind() == reflect.Struct {
			all = append(all, leafPaths(inner, path)...)
		}
	}
	return all
}

func namesGo(text string) bool {
	for _, name := range []string{
		"PatchRules", "CreateSale", "Nullable", "Opt[", "api.", "sluice.", "struct", "int64",
		"json",
	} {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

func TestErrorPathOfARule(t *testing.T) {
	for body, want := range map[string]string{
		`{"buyer_rate":{"requests":"many","per_s":1}}`: "buyer_rate.requests: want a whole number that fits 64 bits, have " +
			"string",
		`{"buyer_rate":{"requests":1,"shared":1}}`: "buyer_rate.shared: want true or false, have number",
		`{"risk":{"url":1}}`:                       "risk.url: want a string, have number",
		`{"admission_ratio":"1"}`:                  "admission_ratio: want a number, have string",
		`{"price":{"amount":1.5}}`:                 "price.amount: want a whole number that fits 64 bits, have 1.5",
	} {
		for _, message := range []any{new(CreateSale), new(PatchSale)} {
			if err := Decode([]byte(body), message); err == nil || err.Error() != want {
				t.Errorf("%T %s: %v, want %q", message, body, err, want)
			}
		}
	}
}

// Errors that are not about a type pass through.
func TestAsWrittenKeepsOtherErrors(t *testing.T) {
	err := &json.SyntaxError{Offset: 3}
	if got := asWritten(err, reflect.TypeFor[CreateSale]()); got != error(err) {
		t.Errorf("got %v", got)
	}
}
