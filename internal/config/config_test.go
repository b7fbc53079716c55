package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/must"
	_ "github.com/sluicehq/sluice/ledger/redisledger"
	_ "github.com/sluicehq/sluice/store/mysqlstore"
	_ "github.com/sluicehq/sluice/store/pgstore"
)

// write makes a file and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs, "data_dir", "ledger", "store", "listen", "node", "tls_cert", "tls_key", "admin_key", "url", "claim_queue",
		"wait_replicas", "refresh_interval", "ledger_replica")
	fs.String("other", "", "a flag that is no setting")
	must.Succeed(t, fs.Parse(args))
	return fs
}

func TestTheLaterWins(t *testing.T) {
	file := write(t, "data_dir: from-file\nnode: from-file\nlisten: '127.0.0.1:1'\nadmin_key: "+
		"00123\nledger:\nshutdown_timeout: 3s # text\n")
	c := must.Get(Load(Source{
		File: file,
		Environ: []string{
			"SLUICE_NODE=from-env", "SLUICE_LISTEN=127.0.0.1:2", "SLUICE_STORE=", "PATH=/bin",
			"SLUICE_BUYER_SECRET=s3cret",
		},
		Flags: flags(t, "--listen=127.0.0.1:3", "--other=x"),
	}))(t)
	if c.DataDir != "from-file" || c.Node != "from-env" || c.Listen != "127.0.0.1:3" || c.AdminKey != "00123" ||
		c.BuyerSecret != "s3cret" ||
		c.ShutdownTimeout != 3*time.Second || c.ClaimQueue != 20000 || c.RefreshInterval != 200*time.Millisecond ||
		c.Ledger != "" {
		t.Errorf("%+v", c)
	}
	want := map[string]Row{
		"data_dir":     {"data_dir", "from-file", file + ":1"},
		"node":         {"node", "from-env", "SLUICE_NODE"},
		"listen":       {"listen", "127.0.0.1:3", "--listen"},
		"admin_key":    {"admin_key", "***", file + ":4"},
		"buyer_secret": {"buyer_secret", "***", "SLUICE_BUYER_SECRET"},
		"store":        {"store", "sqlite:from-file/store.db", "default"},
		"ledger":       {"ledger", "sqlite:from-file/ledger.db", "default"},
		"claim_queue":  {"claim_queue", "20000", "default"},
	}
	for _, row := range c.Rows() {
		if w, ok := want[row.Key]; ok && w != row {
			t.Errorf("got %+v, want %+v", row, w)
		}
	}
}

func TestWrong(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		env, args  []string
		want       []string
	}{
		{"unknown key", "node: a\nledgr: x\n", nil, nil, []string{
			`sluice.yaml:2: unknown setting "ledgr"; did you mean ledger?`,
		}},
		{"nonsense key", "frobnicate: 1\n", nil, nil, []string{`:1: unknown setting "frobnicate"`}},
		{"nested", "server:\n  listen: x\n", nil, nil, []string{"line 1: server: want one value, not a list or a group"}},
		{"twice", "node: a\nnode: b\n", nil, nil, []string{"line 2: node is duplicated"}},
		{"no mapping", "- a\n", nil, nil, []string{`line 1: want lines like "listen: 127.0.0.1:8080"`}},
		{"broken", "node: [\n", nil, nil, []string{"config file", "line"}},
		{
			"unknown variable", "",
			[]string{"SLUICE_LEDGR=x"},
			nil,
			[]string{"environment: unknown variable SLUICE_LEDGR; did you mean SLUICE_LEDGER?"},
		},
		{
			"case of a variable", "",
			[]string{"SLUICE_ledger=x"},
			nil,
			[]string{"unknown variable SLUICE_ledger; did you mean SLUICE_LEDGER?"},
		},
		{"listen", "", []string{"SLUICE_LISTEN=8080"}, nil, []string{
			`listen "8080" (from SLUICE_LISTEN): want HOST:PORT, like 127.0.0.1:8080`,
		}},
		{"port", "", nil, []string{"--listen=:70000"}, []string{`listen ":70000" (from --listen)`}},
		{
			"ledger", "", nil,
			[]string{"--ledger=postgres://u:geheim@h/d"},
			[]string{`ledger "postgres://u:***@h/d" (from --ledger): want sqlite:PATH, redis://..., rediss://...`},
		},
		{"ledger without scheme", "", nil, []string{"--ledger=localhost"}, []string{`want sqlite:PATH`}},
		{"ledger without path", "", nil, []string{"--ledger=sqlite:"}, []string{`want a path after sqlite:`}},
		{"sqlite host", "", nil, []string{"--store=sqlite://x.db"}, []string{`want a path after sqlite:`}},
		{"ledger without host", "", nil, []string{"--ledger=redis://"}, []string{`want a host after redis://`}},
		{"store", "", nil, []string{"--store=redis://h"}, []string{
			`store "redis://h" (from --store): want sqlite:PATH, postgres://..., postgresql://... or mysql://...`,
		}},
		{
			"same file", "", nil,
			[]string{"--ledger=sqlite:a.db", "--store=sqlite:a.db"},
			[]string{`store "sqlite:a.db" (from --store): is the ledger's file as well`},
		},
		{"node", "node: a b\n", nil, nil, []string{`node "a b" (from `, `:1): want letters`}},
		{
			"cert alone", "", nil,
			[]string{"--tls-cert=c.pem"},
			[]string{`tls_cert "c.pem" (from --tls-cert): goes with tls_key, which is not set`},
		},
		{"key alone", "", nil, []string{"--tls-key=k.pem"}, []string{`goes with tls_cert, which is not set`}},
		{
			"secret", "",
			[]string{"SLUICE_BUYER_SECRET=ge heim"},
			nil,
			[]string{`buyer_secret "***" (from SLUICE_BUYER_SECRET): want printable ASCII`},
		},
		{"url", "", nil, []string{"--url=localhost:8080"}, []string{
			`url "localhost:8080" (from --url): want http://host:port`,
		}},
		{
			"url with password", "", nil,
			[]string{"--url=http://u:geheim@h"},
			[]string{`url "http://u:***@h" (from --url): want no user`},
		},
		{"level", "log_level: loud\n", nil, nil, []string{`log_level "loud"`, `want debug, info, warn, error`}},
		{"duration", "shutdown_timeout: 10\n", nil, nil, []string{
			`shutdown_timeout "10"`, `want a duration from 0s to 10m0s`,
		}},
		{
			"refresh longer than a lease", "", nil,
			[]string{"--refresh-interval=500ms"},
			[]string{`want a duration from 10ms to 400ms`},
		},
		{
			"reconcile too often", "",
			[]string{"SLUICE_RECONCILE_INTERVAL=10ms"},
			nil,
			[]string{`reconcile_interval "10ms" (from SLUICE_RECONCILE_INTERVAL): want a duration from 1s to 24h0m0s, like 250ms, or off`},
		},
		{"reconcile never", "reconcile_interval: never\n", nil, nil, []string{`reconcile_interval "never"`, "or off"}},
		{"expiry off", "expiry_interval: off\n", nil, nil, []string{
			`expiry_interval "off"`, `want a duration from 10ms to 1m0s`,
		}},
		{
			"abandoned within a transaction", "",
			[]string{"SLUICE_ABANDONED_AFTER=10s"},
			nil,
			[]string{`abandoned_after "10s" (from SLUICE_ABANDONED_AFTER): want a duration from 15s to 1h0m0s`},
		},
		{"number", "", nil, []string{"--claim-queue=0"}, []string{
			`claim_queue "0" (from --claim-queue): want a whole number from 1 to`,
		}},
		{
			"replica", "", nil,
			[]string{"--ledger-replica=redis://h:6379"},
			[]string{`ledger_replica "redis://h:6379" (from --ledger-replica): needs --ledger redis://...; this ledger is sqlite:sluice-data/ledger.db`},
		},
		{
			"replica of a file", "", nil,
			[]string{"--ledger=sqlite:a.db", "--ledger-replica=redis://u:geheim@h"},
			[]string{`needs --ledger redis://...; this ledger is sqlite:a.db`},
		},
		{
			"an address for a ledger", "", nil,
			[]string{"--ledger=127.0.0.1:6379"},
			[]string{
				`ledger "127.0.0.1:6379" (from --ledger): want sqlite:PATH, redis://`,
				`; did you mean redis://127.0.0.1:6379?`,
			},
		},
		{
			"a name for a ledger", "", nil,
			[]string{"--ledger=localhost:6379"},
			[]string{`ledger "localhost:6379"`, `; did you mean redis://localhost:6379?`},
		},
		{
			"a password for a ledger", "", nil,
			[]string{"--ledger=u:geheim@h:6379"},
			[]string{`ledger "u:***" (from --ledger)`},
		},
		{
			"IPv6 for a ledger", "", nil,
			[]string{"--ledger=[::1]:6379"},
			[]string{`ledger "[::1]:6379"`, `; did you mean redis://[::1]:6379?`},
		},
		{
			"an address for a store", "", nil,
			[]string{"--store=db:5432"},
			[]string{`; did you mean postgres://db:5432/DATABASE?`},
		},
		{
			"another address for a store", "", nil,
			[]string{"--store=10.0.0.1:3306"},
			[]string{`store "10.0.0.1:3306"`, `; did you mean mysql://10.0.0.1:3306/DATABASE?`},
		},
		{
			"nearly Redis", "", nil,
			[]string{"--ledger=reids://:geheim@h"},
			[]string{`ledger "reids://:***@h"`, `; did you mean redis://...?`},
		},
		{
			"nearly MySQL", "", nil,
			[]string{"--store=mariadb://u:geheim@h/d"},
			[]string{`store "mariadb://u:***@h/d"`, `; did you mean mysql://...?`},
		},
		{"nearly PostgreSQL", "", nil, []string{"--store=postgre://h/d"}, []string{`; did you mean postgres://...?`}},
		{
			"a path for a store", "", nil,
			[]string{"--store=shop/orders.db"},
			[]string{`; did you mean sqlite:shop/orders.db?`},
		},
		{
			"replica of what", "", nil,
			[]string{"--ledger=redis://h", "--ledger-replica=postgres://h/d"},
			[]string{`ledger_replica "postgres://h/d" (from --ledger-replica): want`},
		},
		{
			"replicas", "", nil,
			[]string{"--wait-replicas=1"},
			[]string{`wait_replicas "1" (from --wait-replicas): needs --ledger redis://...; this ledger is sqlite:sluice-data/ledger.db`},
		},
		{
			"all at once", "nod: x\nlog_level: loud\n",
			[]string{"SLUICE_X=1"},
			[]string{"--listen=x"},
			[]string{"did you mean node?", "loud", "SLUICE_X", `listen "x"`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := Source{Environ: tc.env, Flags: flags(t, tc.args...)}
			if tc.file != "" {
				src.File = write(t, tc.file)
			}
			_, err := Load(src)
			if err == nil {
				t.Fatal("taken")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got  %v\nwant %s", err, w)
				}
			}
			if strings.Contains(err.Error(), "heim") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestIntervalsOfSettling(t *testing.T) {
	c, err := Load(Source{})
	if err != nil || c.ReconcileInterval != time.Minute || c.ExpiryInterval != 250*time.Millisecond ||
		c.AbandonedAfter != 30*time.Second {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = Load(Source{
		File:    write(t, "reconcile_interval: off\nexpiry_interval: 1s\n"),
		Environ: []string{"SLUICE_ABANDONED_AFTER=1m"},
	})
	if err != nil || c.ReconcileInterval != none || c.ExpiryInterval != time.Second || c.AbandonedAfter != time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestForeignVariablesAreLeftAlone(t *testing.T) {
	_, err := Load(Source{Environ: []string{
		"SLUICE_TEST_REDIS_URL=x", "SLUICE_SERVICE_HOST=10.0.0.1", "SLUICE_SERVICE_PORT=80", "SLUICE_SERVICE_PORT_HTTP=80",
		"SLUICE_PORT=tcp://10.0.0.1:80", "SLUICE_PORT_80_TCP=x", "SLUICE_PORT_80_TCP_ADDR=x", "SLUICE_ADMIN_SERVICE_HOST=x",
		"SLUICE_CONFIG=x",
	}})
	if err != nil {
		t.Error(err)
	}
	for _, key := range keys() {
		if foreign(envName(key)) {
			t.Errorf("%s would be taken for a service link", envName(key))
		}
	}
}

func TestMissingFile(t *testing.T) {
	if _, err := Load(Source{File: "/nowhere/sluice.yaml"}); err == nil ||
		err.Error() != "config file /nowhere/sluice.yaml: no such file or directory" {
		t.Error(err)
	}
	if _, err := Load(Source{File: t.TempDir()}); err == nil {
		t.Error("a folder is taken")
	}
	c := must.Get(Load(Source{Flags: flags(t, "--tls-cert=/nowhere/c.pem", "--tls-key=/nowhere/k.pem")}))(t)
	if err := c.CheckFiles(); err == nil || !strings.Contains(err.Error(),
		`tls_cert "/nowhere/c.pem" (from --tls-cert): cannot be read: no such file`) {
		t.Error(err)
	}
}

// The template holds every setting, and means what it says: nothing.
func TestTemplate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	must.Succeed(t, WriteTemplate(path))
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %s", info.Mode())
	}
	if err := WriteTemplate(path); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Error(err)
	}
	c := must.Get(Load(Source{File: path}))(t)
	defaults := must.Get(Load(Source{}))(t)
	if d := cmp.Diff(defaults.Rows(), c.Rows()); d != "" {
		t.Error(d)
	}
	// With the comments taken off, it is a file with every default in it.
	var lines []string
	for line := range strings.Lines(templateText()) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") {
			lines = append(lines, line[1:])
		}
	}
	if len(lines) != len(settings) {
		t.Errorf("%d of %d settings", len(lines), len(settings))
	}
	c = must.Get(Load(Source{File: write(t, strings.Join(lines, ""))}))(t)
	for i, row := range c.Rows() {
		if row.Value != defaults.Rows()[i].Value {
			t.Errorf("%+v, default %+v", row, defaults.Rows()[i])
		}
	}
}

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"sqlite:/a/b.db":                      "sqlite:/a/b.db",
		"redis://h:1/0":                       "redis://h:1/0",
		"redis://:geheim@h:1":                 "redis://:***@h:1",
		"postgres://u:geheim@h/d?sslmode=off": "postgres://u:***@h/d?sslmode=off",
		"postgres://u@h/d?password=geheim":    "postgres://u@h/d?password=***",
		"redis+sentinel://u:geheim@h:1,i:2/m": "redis+sentinel://u:***@h:1,i:2/m",
		"redis://u:ge%zzheim@h":               "redis://***",
		"redis:u:geheim@h":                    "redis:***",
		"u:geheim@h":                          "u:***",
		"geheim@h:1":                          "***",
		"127.0.0.1:6379":                      "127.0.0.1:6379",
		"[::1]:6379":                          "[::1]:6379",
		"u/geheim@h:1":                        "***",
		"geheim@h":                            "***",
	} {
		got := auth.Redact(raw)
		if strings.Contains(got, "heim") {
			t.Errorf("%s: shows the password: %s", raw, got)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

func TestSecretsHaveNoFlag(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("--buyer-secret would show in ps")
		}
	}()
	AddFlags(pflag.NewFlagSet("x", pflag.ContinueOnError), "buyer_secret")
}

func TestNearest(t *testing.T) {
	for have, want := range map[string]string{"listn": "listen", "dta_dir": "data_dir", "xyzzy": "", "STORE": "store"} {
		if got := Nearest(have, keys()); got != want {
			t.Errorf("%s: %q, want %q", have, got, want)
		}
	}
}

func TestListeners(t *testing.T) {
	for name, tc := range map[string]struct{ listen, given, want string }{
		"loopback":              {"127.0.0.1:8080", "", ""},
		"localhost":             {"localhost:9", "", ""},
		"all addresses":         {"0.0.0.0:8080", "", "127.0.0.1:8081"},
		"any":                   {":0", "", "127.0.0.1:8081"},
		"IPv6 loopback":         {"[::1]:1", "", ""},
		"another":               {"127.0.0.1:8080", "127.0.0.1:9090", "127.0.0.1:9090"},
		"the same":              {"10.0.0.1:8080", "10.0.0.1:8080", ""},
		"two picked ports":      {"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"},
		"beyond, and both open": {"0.0.0.0:80", "0.0.0.0:81", "0.0.0.0:81"},
	} {
		c, err := Load(Source{Environ: []string{"SLUICE_LISTEN=" + tc.listen, "SLUICE_ADMIN_LISTEN=" + tc.given}})
		if err != nil || c.AdminListen != tc.want {
			t.Errorf("%s: %q (%v), want %q", name, c.AdminListen, err, tc.want)
		}
	}
	if _, err := Load(Source{Environ: []string{"SLUICE_ADMIN_LISTEN=8081"}}); err == nil ||
		!strings.Contains(err.Error(), "want HOST:PORT") {
		t.Error(err)
	}
}

// Merchant commands go to admin_url, unless a --url was typed after it was set.
func TestAdminURL(t *testing.T) {
	for _, tc := range []struct {
		env, args []string
		want      string
	}{
		{nil, nil, "http://127.0.0.1:8080"},
		{[]string{"SLUICE_URL=http://a"}, nil, "http://a"},
		{[]string{"SLUICE_URL=http://a", "SLUICE_ADMIN_URL=http://b"}, nil, "http://b"},
		{[]string{"SLUICE_ADMIN_URL=http://b"}, []string{"--url=http://c"}, "http://c"},
		{[]string{"SLUICE_ADMIN_URL=http://b"}, []string{"--url=http://c", "--admin-url=http://d"}, "http://d"},
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		AddFlags(flags, "url", "admin_url")
		must.Succeed(t, flags.Parse(tc.args))
		c, err := Load(Source{Environ: tc.env, Flags: flags})
		if err != nil || c.AdminURL != tc.want {
			t.Errorf("%v %v: %v, want %s (%v)", tc.env, tc.args, c, tc.want, err)
		}
	}
}

// A program finds in engine.Config, by its name, what the documents say of a setting.
func TestFieldsAreNamedLikeSettings(t *testing.T) {
	var fields []string
	for _, of := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[engine.Pages]()} {
		for _, field := range reflect.VisibleFields(of) {
			fields = append(fields, strings.ToLower(field.Name))
		}
	}
	for _, setting := range settings {
		if name := strings.ReplaceAll(setting.key, "_", ""); !slices.Contains(fields, name) {
			t.Errorf("the setting %s is in no field of its name", setting.key)
		}
	}
}
