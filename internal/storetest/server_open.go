package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Servers that start together migrate once, and all of them work.
func testOpensTogether(t *testing.T, server *Server) {
	url := server.Empty(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			s, err := server.Open(t.Context(), url, ServerOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Sales(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	var applied, versions int
	row := server.Raw(t, url).QueryRowContext(t.Context(),
		"SELECT count(*), count(DISTINCT version_id) FROM sluice_schema WHERE version_id > 0")
	if err := row.Scan(&applied, &versions); err != nil || applied == 0 || applied != versions {
		t.Errorf("%d migrations applied, of %d versions, %v", applied, versions, err)
	}
}

// A server that finds the migration's lock taken waits for it.
func testOpenWaits(t *testing.T, server *Server) {
	url := server.Empty(t)
	raw := server.Raw(t, url)
	migrated := func() bool {
		return slices.ContainsFunc(server.tables(t, raw), func(table string) bool { return table != schemaTable })
	}
	release := server.HoldMigrations(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if s, err := server.Open(ctx, url, ServerOptions{}); !errors.Is(err, context.DeadlineExceeded) || migrated() {
		t.Errorf("store %v, error %v, migrated: %v; want it to wait", s, err, migrated())
	}
	if server.LockIsOfTheDatabase {
		server.open(t, server.Empty(t))
	}
	release()
	if server.open(t, url); !migrated() {
		t.Error("not migrated")
	}
}

func testNewerSchema(t *testing.T, server *Server) {
	url := server.Empty(t)
	server.open(t, url)
	execute(t, server.Raw(t, url), "INSERT INTO sluice_schema (version_id, is_applied) VALUES (999, true)")
	for name, open := range server.openers() {
		if _, err := open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "999") {
			t.Errorf("%s: error %v, want one that names the version", name, err)
		}
	}
}

func testNoSchema(t *testing.T, server *Server) {
	url := server.Empty(t)
	_, err := server.OpenReadOnly(t.Context(), url)
	if err == nil || !strings.Contains(err.Error(), "no store of sluice") {
		t.Errorf("error %v", err)
	}
	if tables := server.tables(t, server.Raw(t, url)); len(tables) != 0 {
		t.Errorf("tables %v, want none", tables)
	}
}

// The database itself refuses, should a change ever get that far.
func testReadOnlyDatabase(t *testing.T, server *Server) {
	url := server.Empty(t)
	server.open(t, url)
	r := server.openReadOnly(t, url)
	server.LiftReadOnly(r)
	_, err := r.CreateSale(t.Context(), aSale("phones", 10))
	if err == nil || !strings.Contains(err.Error(), server.ReadOnlyError) {
		t.Errorf("error %v, want %q", err, server.ReadOnlyError)
	}
	if _, err := r.Sale(t.Context(), "phones"); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("sale: %v", err)
	}
}

// openers are the two ways to open a database.
func (s *Server) openers() map[string]func(context.Context, string) (port.Store, error) {
	return map[string]func(context.Context, string) (port.Store, error){
		"Open": func(ctx context.Context, url string) (port.Store, error) {
			return s.Open(ctx, url, ServerOptions{ConnectTimeout: time.Second})
		},
		"OpenReadOnly": s.OpenReadOnly,
	}
}

// secret is a password that must not be in any error.
const secret = "s3cr3t-%2F"

// Errors of Open are one sentence without the password, and tell a database
// that may come back from a URL that is wrong.
func testOpenErrors(t *testing.T, server *Server) {
	base := server.Empty(t)
	port := must.Get(servertest.FreePort())(t)
	fails := func(unreachable bool) func(name, url, want string) {
		return func(name, url, want string) {
			for opener, open := range server.openers() {
				_, err := open(t.Context(), url)
				if err == nil {
					t.Errorf("%s, %s: no error", name, opener)
					continue
				}
				text := err.Error()
				if !strings.Contains(text, want) || strings.Contains(text, "\n") || !strings.HasPrefix(text, server.Name+": ") {
					t.Errorf("%s, %s: %q, want a line with %q", name, opener, text, want)
				}
				if strings.Contains(text, "s3cr3t") || strings.Contains(text, "sluice-test") {
					t.Errorf("%s, %s: the password shows: %s", name, opener, text)
				}
				if errors.Is(err, sluice.ErrStoreBusy) != unreachable {
					t.Errorf("%s, %s: unreachable %v: %s", name, opener, !unreachable, text)
				}
			}
		}
	}
	scheme, _, _ := strings.Cut(base, ":")
	fails(true)("nothing listens", fmt.Sprintf("%s://ann:%s@127.0.0.1:%d/shop", scheme, secret, port),
		fmt.Sprintf(`database "shop" at 127.0.0.1:%d`, port))
	server.OpenErrors(t, base, secret, fails(true), fails(false))
}
