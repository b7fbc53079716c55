package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// check is a row of docs/checklist.md.
type check struct {
	command string
	right   []string // what it prints; nil: nothing
	some    bool     // for a person to judge
}

var (
	checkRow = regexp.MustCompile("(?m)^\\|[^|]+\\| `((?:[^`|]|\\\\\\|)+)` \\| (.+) \\|$")
	spanned  = regexp.MustCompile("`([^`]+)`")
)

func checklist(t *testing.T, file string) (rows []check) {
	t.Helper()
	for _, row := range checkRow.FindAllStringSubmatch(read(t, filepath.Join("..", "..", file)), -1) {
		c := check{command: strings.ReplaceAll(row[1], `\|`, "|")}
		for _, want := range spanned.FindAllStringSubmatch(row[2], -1) {
			c.right = append(c.right, want[1])
		}
		c.some = c.right == nil && row[2] != "nothing" && row[2] != "无输出"
		rows = append(rows, c)
	}
	return rows
}

// docs/checklist.md, on Redis and PostgreSQL: each command shows what the page says. The
// file of settings, the log, the buyers' address and the crowd's size are other ones.
func TestChecklist(t *testing.T) {
	t.Parallel()
	rows := checklist(t, "docs/checklist.md")
	chinese := checklist(t, "docs/checklist.zh-CN.md")
	if len(rows) < 30 || !slices.EqualFunc(rows, chinese, func(a, b check) bool {
		return a.command == b.command && a.some == b.some && (a.right == nil) == (b.right == nil)
	}) {
		t.Fatalf("%d rows in English, %d in Chinese, or they differ", len(rows), len(chinese))
	}
	servertest.Program(t, "postgres", "psql")
	servertest.Program(t, "redis", "redis-cli")
	redis, pg := servertest.StartRedis(t, "--maxmemory-policy", "noeviction"), servertest.StartPostgres(t)
	admin := freeAddr(t)
	s := newServer(t, backends{ledger: redis.URL(), store: pg.URL()}, "--admin-listen", admin)
	s.admin = "http://" + admin
	s.start()
	dir := t.TempDir()
	must.Succeed(t, os.Symlink(binary, filepath.Join(dir, "sluice")))
	write(t, filepath.Join(dir, "sluice.env"), "SLUICE_LEDGER="+redis.URL()+"\nSLUICE_STORE='"+s.on.store+
		"'\nSLUICE_ADMIN_KEY="+adminKey+"\nSLUICE_BUYER_SECRET="+buyerSecret+"\nSLUICE_URL="+s.url+
		"\nSLUICE_ADMIN_URL="+s.admin+"\nSLUICE_DATA_DIR="+s.dir+"\n")
	here := strings.NewReplacer("/etc/sluice/sluice.env", filepath.Join(dir, "sluice.env"),
		"journalctl -u sluice -b --no-pager", "cat "+filepath.Join(dir, "log"),
		"SHOP=https://buy.shop.example", "SHOP="+s.url,
		"TOKEN=...", "TOKEN=$(sluice token --buyer tester)", "--buyers 10000", "--buyers 300")
	page := snippets(t, "docs/checklist.md")
	set := here.Replace(next(t, &page, "sh", "sluice.env"))

	created := sh(t, dir, set+`
sluice sale create --id $SALE --title T --price 100 --total 100 --payment-window 24h
sluice webhook create http://127.0.0.1:1/ --types sale.archived
curl -X POST $SHOP/v1/sales/phone/orders -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: the-first" -d '{"quantity":1}'
until sluice order list --sale phone | grep pending; do sleep 0.05; done
sluice order cancel $(sluice order list --sale phone --json | grep -o 'phone\.[0-9a-f]*' | head -n 1)`, pathOf(dir)...)
	if !strings.Contains(created, "queued") {
		t.Fatal(created)
	}
	for _, c := range rows {
		var out []byte
		wrong := func() string {
			write(t, filepath.Join(dir, "log"), s.log())
			cmd := exec.Command("sh", "-uc", set+here.Replace(c.command))
			cmd.Dir, cmd.Env = dir, pathOf(dir)
			out, _ = cmd.CombinedOutput()
			for _, want := range c.right {
				if !strings.Contains(string(out), want) {
					return "does not show " + want
				}
			}
			if c.right == nil && !c.some && len(out) > 0 || strings.Contains(string(out), "error: ") {
				return "shows something else"
			}
			return ""
		}
		why := wrong()
		for deadline := time.Now().Add(patience / 2); why != "" && time.Now().Before(deadline); why = wrong() {
			time.Sleep(100 * time.Millisecond) // a moment later it may be stored
		}
		if why != "" {
			t.Errorf("%s\n%s:\n%s", c.command, why, out)
		}
	}
}

// pathOf finds the sluice that is linked in a folder.
func pathOf(dir string) []string {
	return []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir}
}
