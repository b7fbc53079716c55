package servertest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/internal/must"
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
	must.Get(connect(t, server.URL()).Exec(t.Context(), "CREATE TABLE kept (n int)"))(t)
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
	conn := must.Get(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
