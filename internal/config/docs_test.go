package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// Every setting is in a document, by its key, its flag or its variable.
func TestSettingsAreDocumented(t *testing.T) {
	var docs strings.Builder
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d documents: %v", len(files), err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		docs.Write(text)
	}
	named := map[string]bool{}
	names := regexp.MustCompile("`[a-z_]+`|--[a-z-]+|SLUICE_[A-Z_]+|(?m)^[a-z_]+:")
	for _, name := range names.FindAllString(docs.String(), -1) {
		named[name] = true
	}
	for i := range settings {
		key := settings[i].key
		if !named["`"+key+"`"] && !named["--"+strings.ReplaceAll(key, "_", "-")] &&
			!named["SLUICE_"+strings.ToUpper(key)] && !named[key+":"] {
			t.Errorf("no document in docs/ has the setting %s", key)
		}
	}
}
