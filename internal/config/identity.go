package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/auth"
)

// adminKeyFields are the fields of one entry of admin_keys.
var adminKeyFields = []string{"name", "role", "key", "key_sha256", "key_file"}

const wantAdminKeys = "want a list of entries with name, role, and key, key_sha256 or key_file"

// parseAdminKeys reads the list of admin_keys, YAML or JSON. Its errors never
// repeat a value but names and roles: the rest may be a secret.
func parseAdminKeys(text string) ([]sluice.AdminKey, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 ||
		doc.Content[0].Kind != yaml.SequenceNode {
		return nil, errors.New(wantAdminKeys)
	}
	var keys []sluice.AdminKey
	names := map[string]bool{auth.MasterName: true}
	for i, entry := range doc.Content[0].Content {
		key, err := parseAdminKey(entry)
		if err == nil {
			err = auth.ValidateKey(&key)
		}
		if err == nil && names[key.Name] {
			err = fmt.Errorf("%s: the name is duplicated", key.Name)
			if key.Name == auth.MasterName {
				err = fmt.Errorf("%s: the name is that of admin_key", key.Name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		names[key.Name] = true
		keys = append(keys, key)
	}
	return keys, nil
}

func parseAdminKey(entry *yaml.Node) (key sluice.AdminKey, err error) {
	if entry.Kind != yaml.MappingNode {
		return key, errors.New(wantAdminKeys)
	}
	seen := map[string]string{}
	for i := 0; i < len(entry.Content); i += 2 {
		field, value := entry.Content[i].Value, entry.Content[i+1]
		_, twice := seen[field]
		switch {
		case !slices.Contains(adminKeyFields, field):
			return key, fmt.Errorf("unknown field %q%s", field, hint(field, adminKeyFields))
		case twice:
			return key, fmt.Errorf("%s is duplicated", field)
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			return key, fmt.Errorf("%s: want a text", field)
		}
		seen[field] = value.Value
	}
	key = sluice.AdminKey{Name: seen["name"], Key: seen["key"], SHA256: seen["key_sha256"], File: seen["key_file"]}
	if key.Name != "" && seen["role"] != "" {
		if key.Role, err = sluice.ParseRole(seen["role"]); err != nil {
			return key, fmt.Errorf("%s: %w", key.Name, err)
		}
	}
	return key, nil
}

func (c *Config) checkAdminKeys(value string) (err error) {
	if value != "" {
		c.AdminKeys, err = parseAdminKeys(value)
	}
	return err
}

// showAdminKeys shows names and roles.
func showAdminKeys(value string) string {
	keys, err := parseAdminKeys(value)
	if err != nil {
		return "***"
	}
	var shown []string
	for _, k := range keys {
		shown = append(shown, fmt.Sprintf("%s (%s)", k.Name, k.Role))
	}
	return strings.Join(shown, ", ")
}

// showJWKS shows the path of a file, or a URL.
func showJWKS(value string) string {
	if !strings.Contains(value, "://") {
		return value
	}
	return showURL(value)
}

// showURL hides what a URL may hold of secrets.
func showURL(value string) string {
	if i := strings.IndexAny(value, "?#"); i >= 0 && i < len(value)-1 {
		return auth.Redact(value[:i]) + value[i:i+1] + "***"
	}
	return auth.Redact(value)
}

// checkIdentityFiles reads the files of keys.
func (c *Config) checkIdentityFiles() error {
	if c.BuyerJWKS != "" && !strings.Contains(c.BuyerJWKS, "://") {
		if err := auth.CheckKeysFile(c.BuyerJWKS); err != nil {
			return c.complain("buyer_jwks", err)
		}
	}
	if _, err := auth.NewAdmins(c.AdminKey, c.AdminKeys); err != nil {
		return c.complain("admin_keys", err)
	}
	return nil
}
