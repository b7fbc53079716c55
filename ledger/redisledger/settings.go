package redisledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/internal/port"
)

// Risks names the settings of the Redis that can lose accepted claims; none is
// the recommended state. In a cluster it asks the nodes that happen to answer.
//
// Errors: Redis does not answer, does not allow CONFIG GET, as some managed ones
// and users without this right, or returns no value for some of the settings.
// Those it does return are judged all the same.
func (l *Ledger) Risks(ctx context.Context) ([]port.SettingRisk, error) {
	commands := make([]rueidis.Completed, len(judged))
	for i, name := range judged { // one by one: Redis 6 takes no list
		commands[i] = l.client.B().ConfigGet().Parameter(name).Build()
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	settings := map[string]string{}
	for _, result := range l.client.DoMulti(ctx, commands...) {
		answer, err := result.AsStrMap()
		if err != nil {
			return nil, l.explain(err)
		}
		maps.Copy(settings, answer)
	}
	return risks(settings)
}

// judged are the settings that risks looks at.
var judged = []string{"appendonly", "appendfsync", "maxmemory", "maxmemory-policy"}

// risks judges settings. An absent one is not known, which is the error.
func risks(settings map[string]string) (found []port.SettingRisk, err error) {
	unknown := slices.DeleteFunc(slices.Clone(judged), func(name string) bool { return settings[name] != "" })
	if len(unknown) > 0 {
		err = fmt.Errorf("CONFIG GET returns no value for %s", strings.Join(unknown, ", "))
	}
	judge := func(setting, harm, want string) {
		found = append(found, port.SettingRisk{
			Setting: setting, Value: settings[setting], Harm: harm, Want: want, Evicts: setting == "maxmemory-policy",
		})
	}
	switch fsync := settings["appendfsync"]; {
	case settings["appendonly"] == "no":
		judge("appendonly", "when Redis ends, all accepted claims since its last snapshot that are not stored yet are "+
			"lost, and its sales stop until they are rebuilt",
			"appendonly yes and appendfsync always")
	case settings["appendonly"] == "yes" && fsync != "" && fsync != "always":
		judge("appendfsync",
			"when the machine of Redis fails, the claims accepted last, with everysec those of about a second, are lost",
			"appendfsync always")
	}
	policy, limit := settings["maxmemory-policy"], settings["maxmemory"]
	if policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		judge("maxmemory-policy",
			"when its memory is full, Redis deletes keys of running sales, and with them accepted claims",
			"maxmemory-policy noeviction")
	}
	return found, err
}
