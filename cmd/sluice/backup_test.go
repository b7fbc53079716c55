package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// A backup beside a running server: whole or absent, for its owner alone, and
// without secrets unless they are asked for.
func TestBackup(t *testing.T) {
	s := serve(t)
	ok(t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "40")
	load := okJSON[loadgen.Result](t, s.env, "load", "--sale", "phone", "--buyers", "60", "--again", "0")
	if load.Decisions[sluice.Accepted] != 40 {
		t.Fatalf("%+v", load)
	}
	waitStored(t, s, "phone", 40)
	parent := t.TempDir()
	to := filepath.Join(parent, "deep", "backup-1")

	out := ok(t, s.env, "backup", "--to", to)
	if !strings.Contains(out, "1 sale, 40 orders") || !strings.Contains(out, "Backed up to "+to) {
		t.Errorf("%s", out)
	}
	before := listed(t, to)
	if len(before) != 2 {
		t.Errorf("the folder has %v, want the ledger and the store", before)
	}
	for name, mode := range before {
		if mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, mode)
		}
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v; want mode 700", info.Mode(), err)
	}
	report := okJSON[sluice.AuditReport](t, nil, "audit", "--data-dir", to, "--sale", "phone")
	if !report.OK || report.Figures.Store.Orders != 40 ||
		!strings.HasPrefix(report.Figures.Store.Fence, "restored from the backup of ") {
		t.Errorf("%+v", report)
	}

	// Never over something that is there.
	got := command(t, s.env, "backup", "--to", to)
	if got.code != exitFailed || !strings.Contains(got.stderr, to+" is not empty") {
		t.Errorf("%+v", got)
	}
	if again := listed(t, to); len(again) != len(before) {
		t.Errorf("a refused backup changed the folder: %v", again)
	}

	second := filepath.Join(parent, "backup-2")
	if err := os.Mkdir(second, 0o755); err != nil { // empty is good enough
		t.Fatal(err)
	}
	type counts struct{ Sales, Rows, Orders, Bytes int64 }
	j := okJSON[struct {
		Folder        string
		At            api.Time
		Ledger, Store counts
		Secrets       []string
	}](t, s.env, "backup", "--to", second, "--with-secrets")
	if j.Folder != second || j.Ledger.Sales != 1 || j.Ledger.Rows == 0 || j.Store.Orders != 40 || j.Store.Bytes == 0 ||
		len(j.Secrets) != 3 {
		t.Errorf("%+v", j)
	}
	for _, name := range []string{"admin.key", "buyer.secret", "webhook.key"} {
		want, _ := os.ReadFile(filepath.Join(s.data, name))
		have, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || string(have) != string(want) || len(have) == 0 {
			t.Errorf("%s: %v, %d bytes", name, err, len(have))
		}
	}
	if files := listed(t, second); len(files) != 5 || files["admin.key"] != 0o600 {
		t.Errorf("%v", files)
	}
	for _, entry := range must.Get(os.ReadDir(parent))(t) {
		if strings.HasPrefix(entry.Name(), ".") {
			t.Errorf("%s is left over", entry.Name())
		}
	}
}

func TestBackupSaysWhatIsWrong(t *testing.T) {
	empty := t.TempDir()
	to := filepath.Join(t.TempDir(), "backup")
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no folder given": {nil, exitUsage, "--to is missing"},
		"no ledger":       {[]string{"--to", to}, exitFailed, "is --data-dir right?"},
		"a file": {
			[]string{"--to", filepath.Join(empty, "file")}, exitFailed, "not a directory",
		},
		"redis and postgres": {
			[]string{"--to", to, "--ledger", "redis://127.0.0.1:1", "--store", "postgres://u@127.0.0.1:1/d"},
			exitFailed,
			"the ledger first, then the store, with their own tools: Redis: copy its append-only folder or run redis-cli " +
				"--rdb; PostgreSQL: pg_dump",
		},
		"mysql": {
			[]string{"--to", to, "--store", "mysql://u@127.0.0.1:1/d"},
			exitFailed,
			"mysqldump --single-transaction",
		},
		"only redis": {
			[]string{"--to", to, "--ledger", "redis://127.0.0.1:1"},
			exitFailed,
			"the embedded store: stop the server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a file" {
				must.Succeed(t, os.WriteFile(filepath.Join(empty, "file"), nil, 0o600))
			}
			got := command(t, []string{"SLUICE_DATA_DIR=" + empty}, append([]string{"backup"}, tc.args...)...)
			if got.code != tc.code || !strings.Contains(got.stderr, tc.want) {
				t.Errorf("exit %d, %s; want %d and %q", got.code, got.stderr, tc.code, tc.want)
			}
			if left := must.Get(os.ReadDir(filepath.Dir(to)))(t); len(left) != 0 {
				t.Errorf("%s is left over", left[0].Name())
			}
		})
	}
}

// listed returns the files of a folder and their modes.
func listed(t *testing.T, folder string) map[string]fs.FileMode {
	t.Helper()
	entries := must.Get(os.ReadDir(folder))(t)
	files := map[string]fs.FileMode{}
	for _, e := range entries {
		info := must.Get(e.Info())(t)
		files[e.Name()] = info.Mode().Perm()
	}
	return files
}
