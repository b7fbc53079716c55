package engine

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/sluicehq/sluice"
)

// limiter counts tries over all servers, in the ledger that they share. Without
// one, no try passes that such a rate bounds.
func limiter(ledger sluice.Ledger) sluice.RateLimiter {
	limiter, _ := ledger.(sluice.RateLimiter)
	return limiter
}

// rulesFile is where a server remembers the rules of its sales, for a start
// while the store does not answer. Sales that it lacks are unavailable then.
const rulesFile = "rules.json"

func (f *folder) rules() (rules map[sluice.SaleID]sluice.Rules) {
	kept, err := os.ReadFile(filepath.Join(f.path, rulesFile))
	if err != nil || json.Unmarshal(kept, &rules) != nil {
		return nil // none, or not whole: as if there were none
	}
	return rules
}

func (f *folder) keepRules(rules map[sluice.SaleID]sluice.Rules) error {
	text, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	return write(filepath.Join(f.path, rulesFile), string(text)+"\n")
}

// rulesChanged keeps the rules of all sales.
func (e *Engine) rulesChanged(rules map[sluice.SaleID]sluice.Rules) {
	if err := e.folder.keepRules(rules); err != nil {
		e.cfg.Log.Warn("the rules of the sales cannot be kept for a start without the store", "error", err)
	}
}
