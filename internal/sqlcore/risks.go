package sqlcore

import "github.com/sluicehq/sluice/internal/port"

// SettingRule judges one setting of a database's server, by all that were read.
type SettingRule struct {
	Setting    string
	Loses      func(values map[string]string) bool
	Harm, Want string
}

// Risks returns the settings that can lose what the database has committed.
func Risks(rules []SettingRule, values map[string]string) (found []port.SettingRisk) {
	for _, r := range rules {
		if r.Loses(values) {
			found = append(found, port.SettingRisk{
				Setting: r.Setting, Value: values[r.Setting], Harm: r.Harm, Want: r.Want,
			})
		}
	}
	return found
}

// What becomes of commits, as SettingRule.Harm says it.
const (
	LostInCrash    = "when the database's machine fails, its last orders and payments are lost"
	LostInFailover = "a standby is attached, and a failover to it loses the last orders and payments"
)
