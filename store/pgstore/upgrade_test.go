package pgstore

import (
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

// A database of an older program keeps its sales, each with its cap.
func TestUpgradeKeepsWhatIsThere(t *testing.T) {
	url := servertest.Postgres(t)
	old, err := connect(url, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, old.db, migrations(), goose.WithTableName(sqlcore.VersionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for _, sale := range []struct {
		id           string
		total, taken any
	}{{"phones", 10, 3}, {"endless", nil, 0}} {
		_, err := old.db.ExecContext(t.Context(), `INSERT INTO sales VALUES
			($1, 'sku', 'title', 1, 'CNY', NULL, NULL, 1000, 0, 1, $2, NULL, NULL, now(), NULL, false, 1, 1, 'why', $3, now(), now())`, sale.id, sale.total, sale.taken)
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Sale(t.Context(), "phones"); err != nil || got.Cap != 10 || got.Total != 10 || got.Taken != 3 || got.Fence != "why" || !got.ArchivedAt.IsZero() {
		t.Errorf("sale %+v, %v", got, err)
	}
	if got, err := s.Sale(t.Context(), "endless"); err != nil || got.Cap != sluice.Unlimited {
		t.Errorf("sale without a total: %+v, %v", got, err)
	}
	for _, statement := range []string{"UPDATE sales SET taken = 11", "UPDATE sales SET cap = 9 WHERE id = 'phones'", "UPDATE sales SET cap = NULL WHERE id = 'phones'"} {
		if _, err := s.db.ExecContext(t.Context(), statement); sqlState(err) != "23514" {
			t.Errorf("%s: error %v, want the check to fail", statement, err)
		}
	}
}
