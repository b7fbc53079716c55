package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every metric is in a document, and docs/operating.md has no other.
func TestMetricsAreDocumented(t *testing.T) {
	read := func(pattern string) string {
		var all strings.Builder
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		return all.String()
	}
	docs, code := read("../../docs/*.md"), read("*.go")
	for _, name := range regexp.MustCompile(`"(sluice_[a-z_]+)"`).FindAllStringSubmatch(code, -1) {
		if !strings.Contains(docs, "`"+name[1]) {
			t.Errorf("no document in docs/ has the metric %s", name[1])
		}
	}
	for _, name := range regexp.MustCompile("`(sluice_[a-z_]+)").FindAllStringSubmatch(read("../../docs/operating.md"),
		-1) {
		if name[1] != "sluice_schema" && !strings.Contains(code, `"`+name[1]+`"`) {
			t.Errorf("docs/operating.md has the metric %s, which does not exist", name[1])
		}
	}
	// A metric to alert on says where the runbook has what to do.
	rows := regexp.MustCompile("(?m)^\\| `sluice_[^|]*\\|[^|]*\\| ([^|]+) \\|$").FindAllStringSubmatch(
		read("../../docs/operating.md"), -1)
	if len(rows) < 15 {
		t.Errorf("%d metrics to alert on, want more", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(row[1], "[runbook](#") {
			t.Errorf("no link to the runbook: %s", row[0])
		}
	}
}
