package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The JSON of tokens is read here and not by encoding/json alone, which takes
// "SUB" for "sub", the last of two, and U+FFFD for whatever is no character:
// several buyers would be one.

var (
	errNoObject = errors.New("it is no JSON object")
	errNoUTF8   = errors.New("it is not valid UTF-8")
	errHalf     = errors.New("it has half a surrogate pair")
)

// twiceError is the name of a member that is duplicated.
type twiceError string

func (e twiceError) Error() string { return strconv.Quote(string(e)) + " is duplicated" }

// eachMember calls see with each member of a JSON object in order: the name
// without its escapes, and the value as it is written. A duplicate name or
// invalid UTF-8 is an error. The time grows with the length, or, with many
// members, with sorting them.
func eachMember(text []byte, see func(name, value []byte) error) error {
	if !utf8.Valid(text) {
		return errNoUTF8
	}
	if !json.Valid(text) {
		return errNoObject
	}
	escapes := bytes.IndexByte(text, '\\') >= 0
	if escapes && !wholePairs(text) {
		return errHalf
	}
	rest := space(text)
	if rest[0] != '{' {
		return errNoObject
	}
	var few [16][]byte
	names := few[:0]
	for rest = space(rest[1:]); rest[0] != '}'; {
		n := valueEnd(rest)
		name := rest[1 : n-1]
		if escapes && bytes.IndexByte(name, '\\') >= 0 {
			var plain string
			if err := json.Unmarshal(rest[:n], &plain); err != nil {
				return errNoObject
			}
			name = []byte(plain)
		}
		rest = space(space(rest[n:])[1:]) // the colon
		n = valueEnd(rest)
		if err := see(name, rest[:n]); err != nil {
			return err
		}
		names = append(names, name)
		if rest = space(rest[n:]); rest[0] == ',' {
			rest = space(rest[1:])
		}
	}
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return twiceError(names[i])
		}
	}
	return nil
}

func space(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n' || text[0] == '\r' || text[0] == '\t') {
		text = text[1:]
	}
	return text
}

// valueEnd returns the length of the value that a valid JSON text begins with.
func valueEnd(text []byte) int {
	depth, i := 0, 0
	for {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default: // a number, true, false or null; between values: spaces, commas and colons
			for i++; i < len(text) && strings.IndexByte("\"{}[], \t\r\n", text[i]) < 0; i++ {
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// wholePairs reports whether every escaped surrogate of a valid JSON text has
// its other half.
func wholePairs(text []byte) bool {
	high := false // what is before i is the first half
	for i := 0; i < len(text); {
		unit := uint64(0)
		n := 1
		if text[i] == '\\' {
			n = 2
			if text[i+1] == 'u' {
				n = 6
				unit, _ = strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
			}
		}
		if low := unit >= 0xdc00 && unit < 0xe000; low != high {
			return false
		}
		high = unit >= 0xd800 && unit < 0xdc00
		i += n
	}
	return true // a text does not end within a string
}

// The faults of values go after the name in a sentence.
var (
	errNoText   = errors.New("is not a text")
	errNoTexts  = errors.New("is not a list of texts")
	errNoNumber = errors.New("is not a number: want seconds since 1970, like 1794398400")
	errTooLarge = errors.New("is beyond 64 bits: want seconds since 1970, like 1794398400")
)

func parseText(value []byte) (string, error) {
	switch {
	case value[0] == 'n': // null
		return "", nil
	case value[0] != '"':
		return "", errNoText
	case bytes.IndexByte(value, '\\') < 0:
		return string(value[1 : len(value)-1]), nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err
}

// parseTexts reads a list of texts, or, if that will do, a single one.
func parseTexts(value []byte, single bool) ([]string, error) {
	fault := errNoTexts
	if single {
		fault = errors.New("is not a text or a list of texts")
		if value[0] == '"' {
			text, err := parseText(value)
			return []string{text}, err
		}
	}
	var list []*string // nil: a null
	if json.Unmarshal(value, &list) != nil || slices.Contains(list, nil) {
		return nil, fault
	}
	var texts []string
	for _, text := range list {
		texts = append(texts, *text)
	}
	return texts, nil
}

// farthest bounds times in seconds, so that all arithmetic with them is right:
// what is later or earlier is as good as this.
const farthest = 1 << 60

// parseTime reads seconds since 1970. A fraction is cut off.
func parseTime(value []byte) (time.Time, error) {
	switch {
	case value[0] == 'n': // null
		return time.Time{}, nil
	case value[0] != '-' && (value[0] < '0' || value[0] > '9'):
		return time.Time{}, errNoNumber
	}
	seconds, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil || math.Abs(f) >= 1<<63 {
			return time.Time{}, errTooLarge
		}
		seconds = int64(f)
	}
	return time.Unix(max(-farthest, min(farthest, seconds)), 0), nil
}
