package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every setting is in a document, by its key, its flag or its variable.
func TestSettingsAreDocumented(t *testing.T) {
	var docs strings.Builder
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d documents: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs.Write(text)
	}
	for i := range settings {
		key := settings[i].key
		flag := "--" + strings.ReplaceAll(key, "_", "-")
		names := regexp.MustCompile("`" + key + "`|" + flag + `\b|SLUICE_` + strings.ToUpper(key) + `\b|(?m)^` + key + ":")
		if !names.MatchString(docs.String()) {
			t.Errorf("no document in docs/ has the setting %s", key)
		}
	}
}
