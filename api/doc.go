// Package api holds the JSON messages of the HTTP API, for the server and the
// client alike. It knows no HTTP: which status a code has is package httpapi's.
//
// Reading is strict: unknown, repeated and differently spelled fields are
// errors, and so is anything after the message. Error texts name the field.
package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/sluicehq/sluice"
)

// Time is a moment on the wire: RFC 3339, UTC, with milliseconds. Any offset is
// read; finer digits are cut off.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// At makes a Time.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// AtOrNull makes a *Time, nil (null on the wire) for the zero time.
func AtOrNull(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	at := At(t)
	return &at
}

// String returns t as the wire has it.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON writes the time.
func (t Time) MarshalJSON() ([]byte, error) {
	dst := make([]byte, 0, len(timeLayout)+2)
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, timeLayout)
	return append(dst, '"'), nil
}

// UnmarshalJSON reads a time.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil && string(data) != "null" {
		// UnmarshalText, unlike Parse, takes nothing but RFC 3339.
		var parsed time.Time
		if parsed.UnmarshalText([]byte(text)) == nil {
			*t = At(parsed)
			return nil
		}
	}
	return wrong[Time](data)
}

// Opt is a field that may be absent but not null.
type Opt[T any] struct {
	Set   bool
	Value T
}

// Some is a field that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{Set: true, Value: v} }

// IsZero makes ",omitzero" leave an absent field out.
func (o Opt[T]) IsZero() bool { return !o.Set }

// MarshalJSON writes the value.
func (o Opt[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// UnmarshalJSON reads the value.
func (o *Opt[T]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return wrong[T](data)
	}
	o.Set = true
	return json.Unmarshal(data, &o.Value)
}

func (Opt[T]) elem() reflect.Type { return reflect.TypeFor[T]() }

// Nullable is a field that may be absent, null or a value: in a change, absent
// leaves it as it is, and null takes the limit away.
type Nullable[T any] struct {
	Set   bool // false: absent
	Null  bool
	Value T
}

// Value is a nullable field with a value.
func Value[T any](v T) Nullable[T] { return Nullable[T]{Set: true, Value: v} }

// Null is a nullable field that is null.
func Null[T any]() Nullable[T] { return Nullable[T]{Set: true, Null: true} }

// IsZero makes ",omitzero" leave an absent field out.
func (n Nullable[T]) IsZero() bool { return !n.Set }

// MarshalJSON writes the value or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if n.Null || !n.Set {
		return []byte("null"), nil
	}
	return json.Marshal(n.Value)
}

// UnmarshalJSON reads the value or null.
func (n *Nullable[T]) UnmarshalJSON(data []byte) error {
	n.Set = true
	if string(data) == "null" {
		n.Null = true
		return nil
	}
	return json.Unmarshal(data, &n.Value)
}

func (Nullable[T]) elem() reflect.Type { return reflect.TypeFor[T]() }

// wrong is the error of a value that is no T. encoding/json adds the field to
// it, and Decode makes the sentence.
func wrong[T any](have []byte) error {
	value := string(have)
	if len(value) > 40 {
		value = value[:40] + "…"
	}
	return &json.UnmarshalTypeError{Value: value, Type: reflect.TypeFor[T]()}
}

// want says in words what a field of this type holds.
func want(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Time]():
		return "a time in RFC 3339, like 2026-11-11T12:00:00.000Z"
	case t == reflect.TypeFor[sluice.Money]():
		return `money, like {"amount": 19900, "currency": "CNY"}`
	}
	switch t.Kind() {
	case reflect.Int64, reflect.Int:
		return "a whole number that fits 64 bits"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return fmt.Sprintf("a %s", t.Kind())
}
