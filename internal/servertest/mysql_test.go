package servertest

import (
	"database/sql"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

func TestMySQLGivesEachTestItsOwnDatabase(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			if _, err := openedMySQL(t, MySQL(t)).Exec("CREATE TABLE mine (n int)"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMySQLComesBackWithItsData(t *testing.T) {
	server := StartMySQL(t)
	must.Get(openedMySQL(t, server.URL()).Exec("CREATE TABLE kept (n int)"))(t)
	for name, end := range map[string]func(testing.TB){"stop": server.Stop, "kill": server.Kill} {
		end(t)
		if err := openedMySQL(t, server.URL()).Ping(); err == nil {
			t.Fatalf("%s: the server still answers", name)
		}
		server.Start(t)
		if _, err := openedMySQL(t, server.URL()).Exec("INSERT INTO kept VALUES (1)"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func openedMySQL(t *testing.T, url string) *sql.DB {
	t.Helper()
	db := must.Get(openMySQL(url))(t)
	t.Cleanup(func() { db.Close() })
	return db
}
