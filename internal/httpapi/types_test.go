package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// TypeScript's names of what is in the API's bodies are made of the document: after
// -update for that, run this with -update, too.
func TestTypesAreCurrent(t *testing.T) {
	file := filepath.Join("..", "..", "clients", "typescript", "api.d.ts")
	var document struct {
		Components struct {
			Schemas map[string]schemaOf `json:"schemas"`
		} `json:"components"`
	}
	text := must.Get(os.ReadFile("openapi.json"))(t) // a test before this one may have written it
	must.Succeed(t, json.Unmarshal(text, &document))
	var made bytes.Buffer
	made.WriteString("// Made from the OpenAPI document by `go test ./internal/httpapi -run Current -update`.\n")
	all := document.Components.Schemas
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&made, "\nexport interface %s %s\n", name, all[name].typescript(""))
	}
	if *update {
		must.Succeed(t, os.WriteFile(file, made.Bytes(), 0o600))
		return
	}
	if had, err := os.ReadFile(file); err != nil || !bytes.Equal(had, made.Bytes()) {
		t.Errorf("%s is not what openapi.json makes (%v): run TestTypesAreCurrent with -update", file, err)
	}
}

// schemaOf is what a schema of the document says of a type.
type schemaOf struct {
	Ref         string              `json:"$ref"`
	Type        any                 `json:"type"` // a name, or names
	Description string              `json:"description"`
	Enum        []string            `json:"enum"`
	AnyOf       []schemaOf          `json:"anyOf"`
	Items       *schemaOf           `json:"items"`
	Properties  map[string]schemaOf `json:"properties"`
	Required    []string            `json:"required"`
}

func (s schemaOf) typescript(indent string) string {
	if s.Ref != "" {
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	}
	var ways []string
	for _, way := range s.AnyOf {
		ways = append(ways, way.typescript(indent))
	}
	names, several := s.Type.([]any)
	if !several && s.Type != nil {
		names = []any{s.Type}
	}
	for _, name := range names {
		ways = append(ways, s.named(name.(string), indent))
	}
	if len(ways) == 0 {
		return "unknown"
	}
	return strings.Join(ways, " | ")
}

func (s schemaOf) named(name, indent string) string {
	switch {
	case name == "string" && len(s.Enum) > 0:
		return `"` + strings.Join(s.Enum, `" | "`) + `"`
	case name == "integer":
		return "number"
	case name == "array":
		element := s.Items.typescript(indent)
		if strings.Contains(element, " | ") {
			element = "(" + element + ")"
		}
		return element + "[]"
	case name == "object" && s.Properties == nil:
		return "Record<string, unknown>"
	case name != "object":
		return name
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		of, optional := s.Properties[field], "?"
		if slices.Contains(s.Required, field) {
			optional = ""
		}
		if of.Description != "" && of.Description != "any object" {
			fmt.Fprintf(&b, "%s  /** %s */\n", indent, of.Description)
		}
		fmt.Fprintf(&b, "%s  %s%s: %s;\n", indent, field, optional, of.typescript(indent+"  "))
	}
	return b.String() + indent + "}"
}
