package sqlcore

import (
	"encoding/json"
	"fmt"

	"github.com/sluicehq/sluice"
)

// rules scans the column that holds a sale's rules as one JSON object. Rules
// that this program does not know are of a newer one, and skipped: it alone
// asks for them.
type rules struct{ to *sluice.Rules }

func (r rules) Scan(src any) error {
	var text []byte
	switch v := src.(type) {
	case []byte:
		text = v
	case string:
		text = []byte(v)
	default:
		return fmt.Errorf("rules are stored as %T", src)
	}
	*r.to = sluice.Rules{}
	if err := json.Unmarshal(text, r.to); err != nil {
		return fmt.Errorf("the rules of a sale cannot be read: %w", err)
	}
	return nil
}

// rulesArg is the inverse of rules. A string, not bytes: MySQL takes those for
// binary, which is no JSON.
func rulesArg(r *sluice.Rules) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and finite numbers: Validate has seen them
	}
	return string(text)
}
