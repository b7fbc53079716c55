package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/config"
)

// flagTime reads the time of a flag: RFC 3339, +10m, now, or none where that
// is the word. The error says what is wrong with it, and what would be right.
func flagTime(name, text string, now time.Time, word string) (api.Nullable[api.Time], error) {
	at, err := parseTime(text, now)
	if err == nil && at.Null && word != "none" {
		err = errors.New("")
	}
	if err == nil {
		return at, nil
	}
	why := err.Error()
	if why != "" {
		why += "; "
	}
	// An example in the past would not even do if it were copied.
	example := now.UTC().Add(24 * time.Hour).Truncate(time.Hour).Format(time.RFC3339)
	return at, fmt.Errorf("--%s %q: %swant a time like %s, +10m or %s", name, text, why, example, word)
}

// parseTime's error is what is wrong, or empty when that is anybody's guess.
func parseTime(text string, now time.Time) (api.Nullable[api.Time], error) {
	switch {
	case text == "none":
		return api.Null[api.Time](), nil
	case text == "now":
		return api.Value(api.At(now)), nil
	case strings.HasPrefix(text, "+"):
		d, err := time.ParseDuration(text[1:])
		if err != nil {
			return api.Nullable[api.Time]{}, errors.New(config.DurationHint(text[1:]))
		}
		return api.Value(api.At(now.Add(d))), nil
	}
	var at api.Time
	quoted, err := json.Marshal(text)
	if err == nil {
		err = at.UnmarshalJSON(quoted)
	}
	if err != nil {
		err = errors.New(timeFault(text))
	}
	return api.Value(at), err
}

var almostTime = regexp.MustCompile(
	`^(\d{4})-(\d\d?)-(\d\d?)(?:([Tt ])(\d\d?):(\d\d)(:\d\d(?:\.\d+)?)?)?([Zz]|[+-]\d\d:?\d\d)?$`)

// timeFault says what keeps a text from being a time of RFC 3339, or "".
func timeFault(text string) string {
	part := almostTime.FindStringSubmatch(text)
	if part == nil {
		return ""
	}
	number := func(digits string) int {
		n, _ := strconv.Atoi(digits) // the pattern lets only digits through
		return n
	}
	year, month, day := number(part[1]), number(part[2]), number(part[3])
	separator, hour, minute, seconds, zone := part[4], part[5], part[6], part[7], part[8]
	switch {
	case month < 1 || month > 12:
		return "there is no month " + part[2]
	case day < 1 || day > time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day():
		return fmt.Sprintf("%s %d has no day %s", time.Month(month), year, part[3])
	case len(part[2]) < 2 || len(part[3]) < 2 || len(hour) == 1:
		return "a digit is missing (write 05 for 5)"
	case separator == "":
		return "the time of day is missing (add T12:00:00Z)"
	case number(hour) > 23:
		return "there is no hour " + hour
	case number(minute) > 59:
		return "there is no minute " + minute
	case separator == " ":
		return "there is a space where T belongs"
	case seconds == "":
		return "the seconds are missing (add :00)"
	case number(seconds[1:3]) > 59:
		return "there is no second " + seconds[1:3]
	case zone == "":
		return "the time zone is missing (add Z for UTC, or an offset like +08:00)"
	case len(zone) == 5:
		return fmt.Sprintf("the time zone lacks its colon (write %s:%s)", zone[:3], zone[3:])
	}
	return ""
}

// flagValueFault is the sentence of a flag's value that cannot be read.
func flagValueFault(wrong *pflag.InvalidValueError) error {
	name, have := wrong.GetFlag().Name, wrong.GetValue()
	want := "another value"
	switch kind := wrong.GetFlag().Value.Type(); {
	case name == "price" || name == "list-price":
		want = "minor units, a whole number: " + minorUnits(have)
	case kind == "duration":
		want = "a duration like 250ms, 90s, 10m or 24h"
		if hint := config.DurationHint(have); hint != "" {
			return fmt.Errorf("--%s %q: %s; want %s", name, have, hint, want)
		}
	case kind == "bool":
		want = "true or false"
	case strings.HasPrefix(kind, "float"):
		want = "a number like 0.5"
	case strings.HasPrefix(kind, "uint"):
		want = "a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"):
		want = "a whole number"
	}
	if errors.Is(wrong, strconv.ErrRange) {
		want += " that is smaller"
		if strings.HasPrefix(have, "-") {
			want = strings.TrimSuffix(want, "smaller") + "nearer to 0"
		}
	}
	return fmt.Errorf("--%s %q: want %s", name, have, want)
}

var twoDecimals = regexp.MustCompile(`^(\d{1,15})\.(\d{1,2})$`)

// minorUnits shows how the price that was probably meant is written; how many
// decimals a currency has is the shop's to know.
func minorUnits(have string) string {
	part := twoDecimals.FindStringSubmatch(have)
	if part == nil {
		return "19900 for 199.00"
	}
	cents := (part[2] + "0")[:2]
	units := strings.TrimLeft(part[1]+cents, "0")
	if units == "" {
		units = "0"
	}
	return fmt.Sprintf("%s for %s.%s", units, part[1], cents)
}
