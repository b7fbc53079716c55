package mysqlstore_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

// A database without a replica has nothing to fail over to. As soon as one is attached, each setting
// that lets a commit be lost is named.
func TestRisks(t *testing.T) {
	t.Parallel()
	primary := servertest.StartMySQL(t, "--log-bin", "--server-id=1", "--sync-binlog=1")
	replica := servertest.StartMySQL(t, "--server-id=2")
	s, other := open(t, primary.URL()), open(t, replica.URL())
	do := func(s *mysqlstore.Store, statement string) {
		t.Helper()
		execute(t, mysqlstore.RawDB(s), statement)
	}
	finds := func(want ...string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			risks := must.Get(s.Risks(t.Context()))(t)
			var have []string
			for _, risk := range risks {
				have = append(have, risk.Setting+" "+risk.Value)
			}
			if slices.Equal(have, want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("risks %q, want %q", have, want)
			}
		}
	}
	finds()
	do(s, "SET GLOBAL innodb_flush_log_at_trx_commit = 2, sync_binlog = 0")
	finds("innodb_flush_log_at_trx_commit 2", "sync_binlog 0")
	do(s, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, sync_binlog = 1")
	u := must.Get(url.Parse(primary.URL()))(t)
	password, _ := u.User.Password()
	do(other, fmt.Sprintf("CHANGE MASTER TO "+
		"MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = '%s', MASTER_PASSWORD = '%s'",
		u.Hostname(), u.Port(), u.User.Username(), password))
	do(other, "START SLAVE IO_THREAD")
	finds("rpl_semi_sync_master_enabled OFF")
	do(s, "SET GLOBAL rpl_semi_sync_master_enabled = ON, rpl_semi_sync_master_wait_point = AFTER_COMMIT")
	finds("rpl_semi_sync_master_wait_point AFTER_COMMIT", "rpl_semi_sync_master_clients 0")
	do(s, "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC")
	do(other, "STOP SLAVE IO_THREAD")
	do(other, "SET GLOBAL rpl_semi_sync_slave_enabled = ON")
	do(other, "START SLAVE IO_THREAD")
	finds()
	do(other, "STOP SLAVE IO_THREAD")
	do(s, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
	finds()
}
