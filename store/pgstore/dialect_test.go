package pgstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What is not the statement's fault must not make dead letters.
func TestRefuses(t *testing.T) {
	for state, want := range map[string]bool{
		"22001": true, "22003": true, "22021": true, "23502": true, "23503": true, "23505": true, "23514": true,
		"23P01": true, "44000": true, "P0001": true, "P0004": true,
		"08006": false, "0A000": false, "25006": false, "40001": false, "40P01": false, "42501": false, "42703": false,
		"42P01": false, "53100": false, "53200": false, "54000": false, "55P03": false, "57014": false, "58030": false,
		"XX000": false,
	} {
		if got := (dialect{}).Refuses(fmt.Errorf("insert: %w", &pgconn.PgError{Code: state})); got != want {
			t.Errorf("%s: %t, want %t", state, got, want)
		}
	}
	if (dialect{}).Refuses(context.DeadlineExceeded) {
		t.Error("a deadline is the statement's fault")
	}
}

// A server that starts waits for a database that is away, and ends where it is refused.
func TestIsAway(t *testing.T) {
	for state, want := range map[string]bool{
		"53300": true, "55000": true, "57P01": true, "57P02": true, "57P03": true,
		"28000": false, "28P01": false, "3D000": false, "42501": false, "42P01": false,
	} {
		if got := isAway(fmt.Errorf("connect: %w", &pgconn.PgError{Code: state})); got != want {
			t.Errorf("%s: %t, want %t", state, got, want)
		}
	}
}
