package servertest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestPostgresGivesEachTestItsOwnSchema(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, Postgres(t))
			if _, err := conn.Exec(t.Context(), "CREATE TABLE mine (n int)"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPostgresComesBackWithItsData(t *testing.T) {
	server := StartPostgres(t)
	if _, err := connect(t, server.URL()).Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(testing.TB){"stop": server.Stop, "kill": server.Kill} {
		end(t)
		if _, err := pgx.Connect(t.Context(), server.URL()); err == nil {
			t.Fatalf("%s: the server still answers", name)
		}
		server.Start(t)
		if _, err := connect(t, server.URL()).Exec(t.Context(), "INSERT INTO kept VALUES (1)"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
