package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// showSettings read what the rules judge, each a name and a value. MariaDB counts its replicas for
// every user, MySQL shows them to one with the privilege PROCESS.
var showSettings = []string{
	`SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog')
		OR Variable_name LIKE 'rpl\_semi\_sync\_%'`,
	`SHOW GLOBAL STATUS WHERE Variable_name = 'Slaves_connected' OR Variable_name LIKE 'Rpl\_semi\_sync\_%'`,
	`SELECT 'dumps', count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'`,
}

const (
	flushLog   = "innodb_flush_log_at_trx_commit"
	semiSync   = "rpl_semi_sync_master_enabled"
	waitPoint  = "rpl_semi_sync_master_wait_point"
	confirming = "rpl_semi_sync_master_clients" // replicas
	waits      = "rpl_semi_sync_master_status"  // OFF: it has waited in vain, and goes on without
)

// settingRules are what a failover and a crash need (ADR 18). With a binary log InnoDB relies on
// it after a crash.
var settingRules = []sqlcore.SettingRule{
	{
		Setting: flushLog, Harm: sqlcore.LostInCrash, Want: flushLog + " = 1",
		Loses: func(v map[string]string) bool { return v[flushLog] == "0" || v[flushLog] == "2" },
	},
	{
		Setting: "sync_binlog", Harm: sqlcore.LostInCrash, Want: "sync_binlog = 1",
		Loses: func(v map[string]string) bool { return v["log_bin"] == "ON" && v["sync_binlog"] != "1" },
	},
	{
		Setting: semiSync, Harm: sqlcore.LostInFailover, Want: "semi-synchronous replication, AFTER_SYNC",
		Loses: func(v map[string]string) bool { return replicated(v) && v[semiSync] != "ON" },
	},
	{
		Setting: waitPoint, Harm: sqlcore.LostInFailover, Want: waitPoint + " = AFTER_SYNC",
		Loses: func(v map[string]string) bool {
			return replicated(v) && v[semiSync] == "ON" && v[waitPoint] != "AFTER_SYNC"
		},
	},
	{
		Setting: confirming, Harm: sqlcore.LostInFailover,
		Want:  "a replica with rpl_semi_sync_slave_enabled = ON",
		Loses: func(v map[string]string) bool { return replicated(v) && v[semiSync] == "ON" && v[confirming] == "0" },
	},
	{
		Setting: waits, Harm: sqlcore.LostInFailover,
		Want: "replicas that keep up, and a longer rpl_semi_sync_master_timeout",
		Loses: func(v map[string]string) bool {
			return replicated(v) && v[semiSync] == "ON" && v[confirming] != "0" && v[waits] == "OFF"
		},
	},
}

func replicated(v map[string]string) bool {
	some := func(name string) bool { return v[name] != "" && v[name] != "0" }
	return some("slaves_connected") || some("dumps")
}

// Risks names the settings of the server that can lose what it has committed.
func (s *Store) Risks(ctx context.Context) ([]port.SettingRisk, error) {
	values := map[string]string{}
	for _, show := range showSettings {
		if err := readSettings(ctx, s.db, show, values); err != nil {
			return nil, fmt.Errorf("mysqlstore: settings: %w", plain(err))
		}
	}
	return sqlcore.Risks(settingRules, values), nil
}

// readSettings notes the settings that a statement shows, by the older of their names.
func readSettings(ctx context.Context, db *sql.DB, show string, values map[string]string) error {
	rows, err := db.QueryContext(ctx, show)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		values[strings.Replace(strings.ToLower(name), "_source_", "_master_", 1)] = value
	}
	return rows.Err()
}
