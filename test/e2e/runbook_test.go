package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// step is a snippet of a document as a test runs it.
type step struct {
	has           string   // what tells it from the document's others
	before, after string   // commands that make what it is about, and that take it away
	edits         []string // for strings.NewReplacer: what this machine has instead
}

// inSteps returns the commands of a document, all of them and in order: each snippet has a
// step. `serve` in it is a function of the runbook, which comes back.
func inSteps(t *testing.T, file string, steps ...step) (script string) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^ *(?:\./)?sluice serve\b`)
	n := 0
	for _, s := range snippets(t, file) {
		if s.language != "sh" {
			continue
		}
		if n == len(steps) || !strings.Contains(s.text, steps[n].has) {
			t.Fatalf("%s: no step, or another one, for\n%s", file, s.text)
		}
		text := line.ReplaceAllString(s.take(), "serve")
		edits := steps[n].edits
		for i := 0; i < len(edits); i += 2 {
			if !strings.Contains(text, edits[i]) {
				t.Fatalf("%s: %q is not in\n%s", file, edits[i], s.text)
			}
		}
		script += fmt.Sprintf("echo '== %s: %s'\n", file, steps[n].has) +
			steps[n].before + strings.NewReplacer(edits...).Replace(text) + steps[n].after
		n++
	}
	if n < len(steps) {
		t.Fatalf("%s: %d snippets, and steps for %d", file, n, len(steps))
	}
	return script
}

// The commands of docs/operating.md, and of other documents for who operates a server, in
// the order in which they stand there. A server that a document starts is stopped when
// the next one is, or where a step says so.
func TestRunbook(t *testing.T) {
	t.Parallel()
	redis, pg := servertest.StartRedis(t), servertest.StartPostgres(t)
	maria := must.Get(url.Parse(servertest.MySQL(t)))(t)
	password, _ := maria.User.Password()
	mysql := fmt.Sprintf("--host=%s --port=%s --user=%s --password=%s %s", maria.Hostname(), maria.Port(),
		maria.User.Username(), password, strings.Trim(maria.Path, "/"))
	for server, tool := range map[string]string{"postgres": "pg_dump", "redis": "redis-cli", "mysql": "mysqldump"} {
		servertest.Program(t, server, tool)
	}
	addr := freeAddr(t)
	shop := []string{"postgres://sluice@127.0.0.1/sluice", "'" + pg.URL() + "'"}
	ledger := []string{"redis://127.0.0.1:6379", redis.URL()}
	pair := append([]string{"127.0.0.1:8081", addr, "127.0.0.1:8082", freeAddr(t)}, append(ledger, shop...)...)
	future := time.Now().AddDate(1, 0, 0).Format("2006")
	open := func(sale string) string {
		return "until ./sluice sale show " + sale + " | grep -q '^state  *open$'; do sleep 0.1; done\n"
	}
	create := func(sale string, more ...string) string {
		return "until ./sluice sale create --id " + sale + " --title T --price 1 --total 9 " + strings.Join(more, " ") +
			"; do sleep 0.1; done\n"
	}

	script := `
serve() {
	stop
	rm -f ready
	./sluice serve --listen "$ADDR" --ready-file ready "$@" >>log 2>&1 &
	SERVER=$!
	until [ -e ready ]; do kill -0 $SERVER; sleep 0.05; done
}
stop() {
	[ -z "$SERVER" ] || { kill $SERVER; wait $SERVER; }
	SERVER=
}
SERVER=
trap stop EXIT
`
	script += inSteps(t, "docs/operating.md",
		step{
			has: "sale check SALE", before: "serve\n" + create("lamp") + open("lamp"), edits: []string{"SALE", "lamp"},
			after: "stop; rm -r sluice-data\n",
		},
		step{has: "./sluice top", before: "serve\n" + create("lamp") + open("lamp"), after: "stop; rm -r sluice-data\n"},
		step{has: "config init"},
		step{has: "./sluice recover lamp --apply", before: create("lamp") + open("lamp"), after: "stop; rm -r sluice-data\n"},
		step{has: "--data-dir b", edits: pair, after: "unset SLUICE_ADMIN_KEY SLUICE_BUYER_SECRET\n"},
		step{has: "log-level", before: "serve\n", edits: []string{"127.0.0.1:8080", addr}},
		step{has: "--trace-endpoint"},
		step{has: "sale restock"},
		step{has: "--opens-at", edits: []string{"2026", future}},
		step{has: "sale delete"},
		step{has: "--visibility hidden"},
		step{has: "order export", before: create("lamp") + open("lamp")},
		step{has: "sluice audit "},
		step{has: "./sluice recover   ", before: open("lamp")},
		step{has: "sluice reconcile"},
		step{has: "dead-letter list"},
		step{has: "sale close"},
		step{has: "backup --to"},
		step{has: "cp -a backup-1", before: "stop\n"},
		step{has: "sale show", before: "until ./sluice audit >audited; do sleep 0.1; done\n"},
		step{
			has: "pg_dump", before: "serve --data-dir c --ledger " + redis.URL() + " --store '" + pg.URL() + "'\n" +
				"export SLUICE_DATA_DIR=c\n" + create("vase") + open("vase"), after: "stop\n",
			edits: append([]string{"redis-cli", "redis-cli -u " + redis.URL(), "--user=sluice sluice", mysql}, shop...),
		},
		step{has: "pg_restore", edits: append(append([]string{"./sluice reconcile", open("vase") + "./sluice reconcile"},
			ledger...), shop...)},
	)
	script += inSteps(t, "docs/redis-keys.md",
		step{has: "XPENDING", edits: []string{"redis-cli", "redis-cli -u " + redis.URL(), "{phone}", "{vase}"}})
	script += "unset SLUICE_DATA_DIR\n"
	script += "serve\n" + create("phone") + open("phone")
	script += inSteps(t, "docs/gate.md", step{has: "sale patch"})
	script += inSteps(t, "docs/events.md",
		step{has: "events --follow", edits: []string{"--follow", "--follow & READER=$!\nsleep 0.1; kill $READER"}},
		step{has: "feed kcat", edits: []string{"bash feed", ": bash feed"}}, // TestGuideFeedsAQueue runs it
		step{has: "feed java", edits: []string{"bash feed", ": bash feed"}}, // needs RocketMQ's library
		step{has: "webhook create"})
	script += inSteps(t, "docs/identity.md",
		step{has: "admin log", before: "ADMIN=\"Authorization: Bearer $(cat sluice-data/admin.key)\" URL=http://$ADDR\n"})
	script += inSteps(t, "docs/personal-data.md", step{has: "buyer erase", edits: []string{"4711", "4710"}})
	drawn := must.Get(filepath.Abs("../../internal/demo/pictures"))(t)
	script += inSteps(t, "docs/pages.md",
		step{
			has: "--picture", edits: []string{"--id lamp", "--id lantern", "patch lamp", "patch lantern"},
			before: "cp " + drawn + "/*.jpg .; mv teapot.jpg lamp-side.png; mv sneaker.jpg lamp-new.jpg\n",
		},
		step{has: "--login-url"})
	script += "serve\n"
	guide := snippets(t, "docs/integrate.md")
	script += strings.Replace(next(t, &guide, "sh", "refund_due"), "grep payment_refused", "cat", 1) // there is none
	readme := snippets(t, "README.md")
	remote := strings.NewReplacer(ledger[0], ledger[1], "postgres://sluice@127.0.0.1:5432/sluice", "'"+pg.URL()+"'",
		"./sluice serve", "serve", "sluice demo", "sluice demo --buyers 2000 --stock 100")
	script += remote.Replace(next(t, &readme, "sh", "serve --ledger"))
	script += "stop\necho all of it\n"

	dir := t.TempDir()
	must.Succeed(t, os.Symlink(binary, filepath.Join(dir, "sluice")))
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", script)
	cmd.Dir, cmd.Env = dir, append(pathOf(dir), "ADDR="+addr, "SLUICE_URL=http://"+addr)
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "all of it\n") {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	const gzip = "\x1f\x8b"
	for profile, begins := range map[string]string{"cpu.pb.gz": gzip, "heap.pb.gz": gzip, "trace.out": "go 1."} {
		if got := read(t, filepath.Join(dir, profile)); !strings.HasPrefix(got, begins) {
			t.Errorf("%s begins %.100q", profile, got)
		}
	}
	for _, want := range []string{"Everything adds up.", "whsec_"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
}

// The settings that documents show are settings, with values that are allowed.
func TestDocumentedSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, digest := filepath.Join(dir, "key"), strings.Repeat("5f", 32)
	write(t, key, strings.Repeat("k", 32)+"\n")
	here := strings.NewReplacer("/run/secrets/sluice-shop", key, "5f0c…64 hexadecimal digits", digest,
		`"…"`, strings.Repeat("d", 32))
	for _, file := range []string{"docs/identity.md", "docs/personal-data.md"} {
		n := 0
		for _, s := range snippets(t, file) {
			if s.language != "yaml" {
				continue
			}
			n++
			settings := filepath.Join(dir, "sluice.yaml")
			write(t, settings, here.Replace(s.take()))
			cmd := exec.Command(binary, "config", "check", "--config", settings)
			cmd.Env = environment()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", file, err, s.text, out)
			}
		}
		if n == 0 {
			t.Errorf("%s shows no settings", file)
		}
	}
}
