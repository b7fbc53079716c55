package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// Error is an answer of the server other than success. Code says what it
// is: the String of a sluice.Code, or an api.CodeX. It is empty when
// something that is no Sluice server answered, a proxy for instance.
type Error struct {
	Code   string
	Status int // of HTTP
	Title  string
	Detail string
	Reason string // forbidden: why a buyer is not let in, "ticket_expired" for instance

	RetryAfter time.Duration    // how long the server asks to wait; 0 when it does not say
	OpensAt    time.Time        // not_open: when the sale opens
	OrderIDs   []sluice.OrderID // buyer_limit: the buyer's live orders of the sale
	Limit      string           // buyer_limit: what it is by, "household" for instance, if it is one of the sale's limits
}

// Error is what is wrong, for people, and the code in parentheses: "No such sale (sale_not_found)".
func (e *Error) Error() string {
	code := cmp.Or(e.Code, fmt.Sprintf("HTTP %d", e.Status))
	if !e.OpensAt.IsZero() {
		code += ", opens at " + api.At(e.OpensAt).String()
	}
	text := cmp.Or(e.Detail, e.Title, http.StatusText(e.Status), "no success")
	return text + " (" + code + ")"
}

// NetworkError means that no usable answer came: whether the server has done
// what was asked is unknown.
type NetworkError struct {
	URL string // of the server
	Err error
}

func (e *NetworkError) Error() string { return fmt.Sprintf("no answer from %s: %v", e.URL, e.Err) }

func (e *NetworkError) Unwrap() error { return e.Err }

// OutcomeUnknownError means that Place gave up while an earlier try may have
// been accepted. Place again with the same key to learn the outcome.
type OutcomeUnknownError struct {
	Key      sluice.Key
	Attempts int
	Last     error // of the last try
}

func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("the outcome is unknown after %d tries with the key %s; the same key gets the same answer: %v",
		e.Attempts, e.Key, e.Last)
}

func (e *OutcomeUnknownError) Unwrap() error { return e.Last }

// CodeOf returns the code of an error of this package, or "" when the server
// gave none.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// IsDecision reports whether err is a refusal of a claim: decided, and no
// reason to try again with the same key.
func IsDecision(err error) bool {
	code, parse := sluice.ParseCode(CodeOf(err))
	return parse == nil && code != sluice.Unavailable && code != sluice.Overloaded && code != sluice.RateLimited
}

func parseError(res *http.Response, data []byte) error {
	e := &Error{Status: res.StatusCode, RetryAfter: parseRetryAfter(res.Header.Get("Retry-After"), time.Now())}
	var p api.Problem
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(data, &p) == nil {
		e.Code, e.Title, e.Detail, e.Reason, e.OrderIDs, e.Limit = p.Code, p.Title, p.Detail, p.Reason, p.OrderIDs, p.Limit
		if p.OpensAt != nil {
			e.OpensAt = p.OpensAt.Time
		}
	} else {
		e.Title = "the answer is not one of a Sluice server"
	}
	return e
}

// parseRetryAfter reads both forms of the header: seconds and a date.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), 24*time.Hour)
	}
	return 0
}
