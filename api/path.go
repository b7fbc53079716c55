package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// asWritten makes the field that an error of encoding/json names the one that
// was written: there, a struct that is embedded in the message stands in the path by
// the name of its Go type.
func asWritten(err error, t reflect.Type) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	fields, clean := fieldsOf(t), *kind
	for {
		name, rest, more := strings.Cut(clean.Field, ".")
		if _, known := fields[name]; known || !more || !embeds(t, name) {
			return &clean
		}
		clean.Field = rest
	}
}

// embeds reports whether a struct type embeds another of this Go name, at any
// depth.
func embeds(t reflect.Type, name string) bool {
	if t = strip(t); t == nil || t.Kind() != reflect.Struct {
		return false
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous && f.Name == name {
			return true
		}
	}
	return false
}
