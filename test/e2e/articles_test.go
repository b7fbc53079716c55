package e2e

import (
	"regexp"
	"testing"
)

// The walk through all steps of docs/articles.md.
func TestArticlesWalk(t *testing.T) {
	t.Parallel()
	out := runWalk(t, "docs/articles.md", []change{
		{"curl -sI", "curl -i"}, // of what our own curl knows
		{"curl -si", "curl -i"},
		{"curl -sN --max-time 1 $URL/v1/sales/mug/events || true\n", ""},
		{"sleep 1\n", "until ./sluice order list --sale mug | grep -q bob; do sleep 0.01; done\n"},
		{"sleep 2\n", "until curl -s $URL/v1/sales/mug | grep -q '\"available\":2'; do sleep 0.01; done\nsleep 1\n"},
	},
		"opens in ", "state      open", `"code":"buyer_limit"`, `"code":"sold_out"`, "pending", "cancelled",
		"Cache-Control: public, max-age=60", "10 tries in 1s, over all servers", "in step", "Everything adds up.")
	ids := regexp.MustCompile(`"order_id":"mug\.[0-9a-f]+"`).FindAllString(out, -1)
	if len(ids) != 4 || ids[0] != ids[1] {
		t.Errorf("orders %q: want alice's twice, bob's, carol's", ids)
	}
}
