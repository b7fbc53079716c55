package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileLine is a setting of the file. Its value is as it was written: a key
// 00123 stays what it is.
type fileLine struct {
	key, value string
	number     int
}

// parseFile reads one flat mapping.
func parseFile(data []byte) (lines []fileLine, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want lines like \"listen: 127.0.0.1:8080\"", top.Line)
	}
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if slices.ContainsFunc(lines, func(l fileLine) bool { return l.key == key.Value }) {
			return nil, fmt.Errorf("line %d: %s is duplicated", key.Line, key.Value)
		}
		if s := find(key.Value); s != nil && s.list && value.Kind == yaml.SequenceNode {
			text, err := yaml.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("line %d: %s cannot be read", key.Line, key.Value)
			}
			value = &yaml.Node{Kind: yaml.ScalarNode, Value: string(text)}
		}
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: %s: want one value, not a list or a group", key.Line, key.Value)
		}
		line := fileLine{key.Value, value.Value, key.Line}
		if value.Tag == "!!null" {
			line.value = ""
		}
		lines = append(lines, line)
	}
	return lines, nil
}
