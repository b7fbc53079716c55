package redisledger

import (
	"context"
	"maps"

	"github.com/redis/rueidis"
)

// Risk is a setting of Redis that can lose accepted claims.
type Risk struct {
	Setting, Value string // as Redis has it now: "appendfsync", "everysec"
	Harm           string // what it can do
	Want           string // what would be right: "appendfsync always"
}

// Risks names the settings of the Redis that can lose accepted claims; none is
// the recommended state. Of a cluster it asks the nodes that happen to answer.
// What Redis does not tell is not judged.
//
// Errors: of a Redis that does not answer, or lets nobody ask for its settings,
// as some managed ones do.
func (l *Ledger) Risks(ctx context.Context) ([]Risk, error) {
	asked := []string{"appendonly", "appendfsync", "maxmemory", "maxmemory-policy"}
	commands := make([]rueidis.Completed, len(asked))
	for i, name := range asked { // one by one: Redis 6 takes no list
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
	return risks(settings), nil
}

// risks judges settings; an empty value is one that is not known.
func risks(settings map[string]string) []Risk {
	var found []Risk
	judge := func(setting, harm, want string) {
		found = append(found, Risk{Setting: setting, Value: settings[setting], Harm: harm, Want: want})
	}
	switch fsync := settings["appendfsync"]; {
	case settings["appendonly"] == "no":
		judge("appendonly", "when Redis ends, all accepted claims since its last snapshot that are not stored yet are lost, and its sales stop until they are rebuilt",
			"appendonly yes and appendfsync always")
	case settings["appendonly"] == "yes" && fsync != "" && fsync != "always":
		judge("appendfsync", "when the machine of Redis fails, the claims accepted last, with everysec those of about a second, are lost", "appendfsync always")
	}
	policy, limit := settings["maxmemory-policy"], settings["maxmemory"]
	if policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		judge("maxmemory-policy", "when its memory is full, Redis deletes keys of running sales, and with them accepted claims", "maxmemory-policy noeviction")
	}
	return found
}
