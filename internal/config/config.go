// Package config reads the settings of the command line: defaults, then the
// file of --config (YAML), then the environment (SLUICE_...), then flags; the
// later wins. It knows where each value came from, and says so when one is
// wrong. Empty values count as not set. Secrets are never printed.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sluicehq/sluice/engine"
)

// Config is all settings, valid. Where an empty value means a default that
// only the server can make, it stays empty.
type Config struct {
	engine.Config // of the server: whatever an engine knows, as it wants it

	Listen, ReadyFile   string
	AdminListen         string // empty: one listener, Listen, for all
	TLSCert, TLSKey     string
	URL, AdminURL       string // of the server that commands speak to; never empty
	LogLevel, LogFormat string
	TraceEndpoint       string // empty: no traces
	ShutdownTimeout     time.Duration

	values  map[string]string // by key, as given
	origins map[string]string // by key; absent: default
}

// Source is where settings come from.
type Source struct {
	File    string // path of the YAML file; empty: none
	Environ []string
	Flags   *pflag.FlagSet // may hold other flags, too; nil: none
}

// Load reads the settings. The error lists everything that is wrong, a line
// each.
func Load(src Source) (*Config, error) {
	c := &Config{values: map[string]string{}, origins: map[string]string{}}
	for _, s := range settings {
		c.values[s.key] = s.preset
	}
	var wrong []error
	if src.File != "" {
		errs := c.loadFile(src.File)
		wrong = append(wrong, errs...)
	}
	wrong = append(wrong, c.loadEnv(src.Environ)...)
	if src.Flags != nil {
		src.Flags.Visit(func(f *pflag.Flag) {
			if s := find(strings.ReplaceAll(f.Name, "-", "_")); s != nil && !s.noFlag {
				c.set(s.key, f.Value.String(), "--"+f.Name)
			}
		})
	}
	for _, s := range c.settings() {
		if err := s.check(c.values[s.key]); err != nil {
			wrong = append(wrong, c.complain(s.key, err))
		}
	}
	if len(wrong) == 0 {
		wrong = c.checkTogether()
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return c, nil
}

func (c *Config) set(key, value, origin string) {
	if value != "" {
		c.values[key], c.origins[key] = value, origin
	}
}

// complain makes the sentence of a wrong value: the setting, the value unless
// it is secret, where it came from, and what would be right.
func (c *Config) complain(key string, err error) error {
	value := find(key).show(c.values[key])
	if len(value) > 100 {
		value = value[:100] + "…"
	}
	return fmt.Errorf("%s %q (from %s): %w", key, value, c.Origin(key), err)
}

// Origin says where a value came from: "default", "sluice.yaml:3",
// "SLUICE_LEDGER" or "--ledger".
func (c *Config) Origin(key string) string {
	if origin := c.origins[key]; origin != "" {
		return origin
	}
	return "default"
}

func (c *Config) loadFile(path string) (wrong []error) {
	data, err := os.ReadFile(path)
	var lines []fileLine
	if err == nil {
		lines, err = parseFile(data)
	}
	if err != nil {
		return []error{fmt.Errorf("config file %s: %w", path, cause(err))}
	}
	for _, l := range lines {
		at := fmt.Sprintf("%s:%d", path, l.number)
		if find(l.key) == nil {
			wrong = append(wrong, fmt.Errorf("%s: unknown setting %q%s", at, l.key, hint(l.key, keys())))
			continue
		}
		c.set(l.key, l.value, at)
	}
	return wrong
}

func (c *Config) loadEnv(environ []string) (wrong []error) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		upper, ours := strings.CutPrefix(name, "SLUICE_")
		if !ours || foreign(name) {
			continue
		}
		s := find(strings.ToLower(upper))
		if s == nil || name != envName(s.key) {
			names := keys()
			for i := range names {
				names[i] = envName(names[i])
			}
			wrong = append(wrong, fmt.Errorf("environment: unknown variable %s%s", name, hint(name, names)))
			continue
		}
		c.set(s.key, value, name)
	}
	return wrong
}

// ConfigVariable names the file like --config does.
const ConfigVariable = "SLUICE_CONFIG"

// foreign reports whether a variable is none of ours: those of tests, and the
// service links that Kubernetes puts into every container when a service is
// called sluice or sluice-something.
func foreign(name string) bool {
	return name == ConfigVariable ||
		strings.HasPrefix(name, "SLUICE_TEST_") ||
		strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}

// Annotations of the flags that AddServerFlags adds.
const (
	Group = "sluice_group" // the heading in help
	Rare  = "sluice_rare"  // only --help-all shows the flag
)

// AddServerFlags gives a command flags for all settings of a server, in groups, and for more. Settings of the
// commands that call a server are none of a server's.
func AddServerFlags(flags *pflag.FlagSet, more ...string) {
	flags.SortFlags = false
	for i := range settings {
		s := &settings[i]
		if s.noFlag || (s.key == "url" || s.key == "admin_url") && !slices.Contains(more, s.key) {
			continue
		}
		AddFlags(flags, s.key)
		f := flags.Lookup(flagName(s.key))
		f.Annotations = map[string][]string{Group: {s.group}}
		if !slices.Contains(needed, s.key) {
			f.Annotations[Rare] = nil
		}
	}
}

// AddFlags gives a command flags for these settings.
func AddFlags(flags *pflag.FlagSet, keys ...string) {
	for _, key := range keys {
		s := find(key)
		if s == nil || s.noFlag {
			panic("config: no flag for " + key)
		}
		usage := s.help
		if s.preset != "" {
			usage += " (default " + s.preset + ")"
		}
		flags.Var(&flagValue{arg: s.arg}, flagName(key), usage)
	}
}

// flagValue is a flag's text, read with all other sources in Load. It is empty
// unless given, so that help shows the default once.
type flagValue struct{ arg, text string }

func (v *flagValue) String() string { return v.text }
func (v *flagValue) Type() string   { return v.arg }
func (v *flagValue) Set(text string) error {
	v.text = text
	return nil
}

// Row is one setting, to be shown.
type Row struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // secrets and passwords as ***
	Origin string `json:"origin"`
}

// Rows returns all settings as they may be printed.
func (c *Config) Rows() []Row {
	rows := make([]Row, 0, len(settings))
	for i := range settings {
		s := &settings[i]
		value := s.show(c.values[s.key])
		if value == "" && (s.key == "ledger" || s.key == "store") {
			value = c.embedded(s.key)
		}
		rows = append(rows, Row{Key: s.key, Value: value, Origin: c.Origin(s.key)})
	}
	return rows
}

// embedded is the URL of the ledger or store of a server that is given none.
func (c *Config) embedded(key string) string {
	return "sqlite:" + filepath.Join(c.DataDir, key+".db")
}

// shownLedger is the ledger as it may be printed.
func (c *Config) shownLedger() string {
	if c.Ledger == "" {
		return c.embedded("ledger")
	}
	return find("ledger").show(c.Ledger)
}

func keys() []string {
	all := make([]string, len(settings))
	for i := range settings {
		all[i] = settings[i].key
	}
	return all
}

// cause takes the operation and path off a file error; the caller names them.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// templateText is a file with every setting, commented out.
func templateText() string {
	var b strings.Builder
	b.WriteString("# Settings of Sluice. What is commented out has its default.\n" +
		"# The environment (SLUICE_...) and flags win over this file: `sluice config print` shows what holds.\n")
	for i := range settings {
		s := &settings[i]
		fmt.Fprintf(&b, "\n# %s\n", s.help)
		fmt.Fprintf(&b, "# %s; %s\n", envName(s.key), flagHelp(s))
		fmt.Fprintf(&b, "#%s: %s\n", s.key, s.preset)
	}
	return b.String()
}

func flagHelp(s *setting) string {
	if s.noFlag {
		return "no flag"
	}
	return "--" + flagName(s.key) + " " + s.arg
}

// WriteTemplate writes the template to a new file that its owner alone can
// read, since it may come to hold secrets. It never overwrites.
func WriteTemplate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("config file %s: exists already, and is left as it is", path)
	}
	if err == nil {
		_, err = f.WriteString(templateText())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("config file %s: %w", path, cause(err))
	}
	return nil
}

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
