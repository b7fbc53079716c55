package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// textYAML is koanf's parser of our file. It keeps values as they were
// written (a key 00123 stays what it is), and remembers their lines.
type textYAML struct {
	keys  []string
	lines map[string]int
}

// Unmarshal reads one flat mapping.
func (p *textYAML) Unmarshal(data []byte) (map[string]any, error) {
	p.lines = map[string]int{}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	values := map[string]any{}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return values, nil
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
		if _, twice := values[key.Value]; twice {
			return nil, fmt.Errorf("line %d: %s stands twice", key.Line, key.Value)
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
		text := value.Value
		if value.Tag == "!!null" {
			text = ""
		}
		values[key.Value] = text
		p.keys = append(p.keys, key.Value)
		p.lines[key.Value] = key.Line
	}
	return values, nil
}

// Marshal is never used.
func (*textYAML) Marshal(map[string]any) ([]byte, error) {
	return nil, errors.New("config: cannot write YAML")
}
