package pgstore

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// Every user sees how many standbys are attached. Who receives single changes (a logical slot) is
// none, nor is a base backup, which is told from a standby by members of pg_monitor alone.
const selectSettings = `SELECT current_setting('fsync'), current_setting('synchronous_commit'),
	current_setting('synchronous_standby_names'), (SELECT count(*)::text FROM pg_stat_replication r
		WHERE coalesce(r.state, '') <> 'backup' AND NOT EXISTS (
			SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))`

// settingRules are what a failover and a crash need (ADR 18).
var settingRules = []sqlcore.SettingRule{
	{
		Setting: "fsync", Harm: sqlcore.LostInCrash + ", or all of them", Want: "fsync = on",
		Loses: func(v map[string]string) bool { return v["fsync"] == "off" },
	},
	{
		Setting: "synchronous_commit", Harm: sqlcore.LostInCrash, Want: "synchronous_commit = on",
		Loses: func(v map[string]string) bool { return v["synchronous_commit"] == "off" },
	},
	{
		Setting: "synchronous_commit", Harm: sqlcore.LostInFailover, Want: "synchronous_commit = on",
		Loses: func(v map[string]string) bool { return v["standbys"] != "0" && v["synchronous_commit"] == "local" },
	},
	{
		Setting: "synchronous_standby_names", Harm: sqlcore.LostInFailover,
		Want:  "synchronous_standby_names with the name of the standby",
		Loses: func(v map[string]string) bool { return v["standbys"] != "0" && v["synchronous_standby_names"] == "" },
	},
}

// Risks names the settings of the server that can lose what it has committed.
func (s *Store) Risks(ctx context.Context) ([]port.SettingRisk, error) {
	var fsync, commit, names, standbys string
	if err := s.pool.QueryRow(ctx, selectSettings).Scan(&fsync, &commit, &names, &standbys); err != nil {
		return nil, fmt.Errorf("pgstore: settings: %w", plain(err))
	}
	return sqlcore.Risks(settingRules, map[string]string{
		"fsync": fsync, "synchronous_commit": commit, "synchronous_standby_names": names, "standbys": standbys,
	}), nil
}
