package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Decode reads one JSON object into dst, strictly: exactly one, known
// fields spelled as documented, none twice. The error is one sentence for the
// person who wrote the message.
func Decode(data []byte, dst any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the body is empty; want a JSON object")
	}
	if !utf8.Valid(data) {
		return errors.New("the body is not valid UTF-8")
	}
	if bytes.TrimSpace(data)[0] != '{' {
		return errors.New("want a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var missing []string
	if err := checkKeys(dec, reflect.TypeOf(dst), "", &missing); err != nil {
		return describe(err, data)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("byte %d: something follows the JSON value", dec.InputOffset())
	}
	if err := json.Unmarshal(data, dst); err != nil {
		return describe(asWritten(err, reflect.TypeOf(dst)), data)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: is missing", missing[0])
	}
	return nil
}

// checkKeys walks one value and compares the keys of objects that become a
// struct with the struct's fields. encoding/json alone lets repeated keys and
// other spellings ("Quantity") pass. It goes no deeper than our types do: a
// message that is nested ten thousand times costs as much as a flat one. What must
// be there and is not is added to missing.
func checkKeys(dec *json.Decoder, t reflect.Type, path string, missing *[]string) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	fields := fieldsOf(t)
	seen, required := map[string]bool{}, requiredIn(t)
	for dec.More() {
		at := path
		var next reflect.Type
		var key string
		if delim == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			key = name.(string)
			at = join(path, key)
			if fields != nil {
				if seen[key] {
					return fmt.Errorf("%s: the field is duplicated (byte %d)", at, dec.InputOffset())
				}
				seen[key] = true
				if next, ok = fields[key]; !ok {
					return fmt.Errorf("%s: unknown field (byte %d)", at, dec.InputOffset())
				}
			}
		} else if s := strip(t); s != nil && s.Kind() == reflect.Slice {
			next = s.Elem()
		}
		if !keyed(next) { // passed over in one step, however deep it is
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return err
			}
			if delim == '{' && string(value) == "null" && slices.Contains(required, key) {
				return fmt.Errorf("%s: is null; want a value", at)
			}
			continue
		}
		if err := checkKeys(dec, next, at, missing); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil { // the closing delimiter
		return err
	}
	for _, name := range required {
		if delim == '{' && !seen[name] {
			*missing = append(*missing, join(path, name))
		}
	}
	return nil
}

// strip takes pointers and Opt and Nullable off a type.
func strip(t reflect.Type) reflect.Type {
	for t != nil {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
			continue
		}
		if holder, ok := reflect.Zero(t).Interface().(interface{ elem() reflect.Type }); ok {
			t = holder.elem()
			continue
		}
		return t
	}
	return nil
}

// keyed reports whether a value of the type may hold objects whose keys are
// compared.
func keyed(t reflect.Type) bool {
	t = strip(t)
	return t != nil && (fieldsOf(t) != nil || t.Kind() == reflect.Slice && keyed(t.Elem()))
}

// fieldsOf returns the JSON fields of a struct type, or nil when any key will do.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	t = strip(t)
	if t == nil || t.Kind() != reflect.Struct || t == reflect.TypeFor[Time]() {
		return nil
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name = cmp.Or(name, f.Name)
		fields[name] = f.Type
	}
	return fields
}

// requiredIn lists the fields of a struct type that no message may leave out.
func requiredIn(t reflect.Type) (names []string) {
	if t = strip(t); t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("wire") == "required" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// describe turns an error of encoding/json into a sentence about the message.
func describe(err error, data []byte) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("broken JSON at byte %d: %s", syntax.Offset, strings.TrimPrefix(syntax.Error(), "json: "))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("broken JSON: it ends at byte %d, before it is complete", len(data))
	case errors.As(err, &kind):
		have := strings.TrimPrefix(kind.Value, "number ")
		if kind.Field == "" {
			return fmt.Errorf("want %s, have %s", want(kind.Type), have)
		}
		return fmt.Errorf("%s: want %s, have %s", kind.Field, want(kind.Type), have)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func join(path, key string) string {
	if len(key) > 40 {
		key = key[:40] + "…"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

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
