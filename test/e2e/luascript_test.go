package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// docs/from-a-lua-script.md at work: a shop sells by the script, a Redis of its own is
// set up, the campaign changes over in its middle, and a backend claims for buyers.
func TestFromALuaScript(t *testing.T) {
	t.Parallel()
	page := snippets(t, "docs/from-a-lua-script.md")
	conf, folders := next(t, &page, "conf", "appendfsync"), next(t, &page, "sh", "install -d")
	users, change := next(t, &page, "sh", "ACL SETUSER"), next(t, &page, "sh", "GETSET")
	sold := next(t, &page, "sql", "tb_voucher_order")
	back, backend := next(t, &page, "sh", "order export"), next(t, &page, "java", "class Claim")
	servertest.Program(t, "redis", "redis-cli")
	servertest.Program(t, "openssl", "openssl")
	dir := t.TempDir()
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "SLUICE_ADMIN_KEY=" + adminKey}
	must.Succeed(t, os.Symlink(binary, filepath.Join(dir, "sluice")))

	// A Redis as careless as one may be, with the settings of the page after them.
	args := []string{
		"--appendonly", "no", "--appendfsync", "everysec", "--maxmemory-policy", "allkeys-lru", "--save", "60 1",
	}
	sh(t, dir, replaceAll(t, folders, "-o redis -g redis ", "", "/var/lib/redis", dir+"/lib", "/etc/redis", dir,
		"systemctl enable --now redis-server@sluice", ""), env...)
	for line := range strings.Lines(replaceAll(t, conf, "port 6380\n", "",
		"/etc/redis", dir, "/var/lib/redis", dir+"/lib")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		args = append(args, "--"+name, strings.Trim(value, `"`))
	}
	redis := servertest.StartRedis(t, args...)
	sh(t, dir, replaceAll(t, users, "-p 6380", "-p "+portOf(redis), "127.0.0.1:6380", redis.Addr(),
		"mysql://sluice:secret@127.0.0.1:3306/sluice", servertest.MySQL(t)), env...)
	if out := sh(t, dir, "redis-cli -p "+portOf(redis)+" GET x", env...); !strings.Contains(out, "NOAUTH") {
		t.Errorf("Redis without a password answers %s", out)
	}
	if rows := wonBefore(t, sold); rows != "1001\n1002\n" {
		t.Errorf("the buyers before: %q", rows)
	}
	settings := regexp.MustCompile(`^SLUICE_STORE=(.+)\nSLUICE_LEDGER=(.+)\n$`).FindStringSubmatch(
		read(t, filepath.Join(dir, "sluice.env")))
	if settings == nil {
		t.Fatal("sluice.env has no ledger or no store")
	}
	s := startServer(t, backends{ledger: settings[2], store: settings[1]}, "--trusted-proxies", "127.0.0.1")
	if log := s.log(); strings.Contains(log, "WARN") {
		t.Errorf("the server warns:\n%s", log)
	}
	env = append(env, "SLUICE_URL="+s.url)
	rushWithLeastRights(t, s, func() {
		sh(t, dir, "set -a; . ./redis-admin.env; redis-cli -p "+portOf(redis)+" FLUSHALL", env...)
	})
	changeOver(t, s, dir, change, back, env)
	t.Run("from a backend", func(t *testing.T) { claimFromBackend(t, s, backend, env) })
}

// The page's opening: redis-cli prints what it says there, to a person at a terminal.
func TestMistakesThatAreCopied(t *testing.T) {
	t.Parallel()
	page, printed := snippets(t, "docs/from-a-lua-script.md"), regexp.MustCompile(`(?m)^#> (.+)$`)
	servertest.Program(t, "redis", "redis-cli")
	cli := "redis-cli --no-raw -p " + portOf(servertest.StartRedis(t))
	for _, mistake := range []string{"sismember", "sadd"} {
		commands := next(t, &page, "sh", mistake)
		out := strings.FieldsFunc(sh(t, t.TempDir(), replaceAll(t, commands, "redis-cli -p 6379", cli),
			"PATH="+os.Getenv("PATH")), func(r rune) bool { return r == '\n' })
		wants := printed.FindAllStringSubmatch(commands, -1)
		if len(out) != len(wants) {
			t.Fatalf("%s: it prints %q, the page %q", mistake, out, wants)
		}
		for i, want := range wants {
			if !strings.HasPrefix(out[i], strings.TrimSuffix(want[1], "...")) {
				t.Errorf("%s: it prints %s, the page %s", mistake, out[i], want[1])
			}
		}
	}
}

func portOf(redis *servertest.RedisServer) string {
	return redis.Addr()[strings.LastIndex(redis.Addr(), ":")+1:]
}

// rushWithLeastRights: a restock, a crowd, and meanwhile the loss of everything in Redis.
func rushWithLeastRights(t *testing.T, s *server, flush func()) {
	const total, more, perBuyer = 200, 50, 2
	sale := createSale(t, s, total, perBuyer)
	awaitState(t, []*server{s}, sale, sluice.StateOpen)
	if _, err := s.merchant().RestockSale(t.Context(), sale, "po-1", more); err != nil {
		t.Error(err)
	}
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 300, Again: 0.2, Connections: 8}, []string{s.url}, 71)
	if !rush.awaitDecided(50) {
		t.Fatal("the rush was over too soon")
	}
	flush()
	rush.wait()
	await(t, "a rebuilt sale", func() bool {
		now, err := s.merchant().AdminSale(t.Context(), sale)
		return err == nil && now.Fence == "" && now.Epoch > 1 // what was lost is noticed and loaded
	})
	verify(t, s, rush, total+more, perBuyer)
}

// changeOver sells a part of voucher 10 by the script, and the rest by Sluice; then it
// goes back.
func changeOver(t *testing.T, s *server, dir, commands, back string, env []string) {
	shop := servertest.StartRedis(t)
	cli := "redis-cli -p " + portOf(shop) + " "
	script := absolute(t, "../../lab/internal/method/s2.lua")
	sell := func(user string) string {
		t.Helper()
		return strings.TrimSpace(sh(t, dir, cli+"--eval "+script+
			" seckill:stock:10 seckill:order:10 stream.order , 10 "+user+" 4711", env...))
	}
	sh(t, dir, cli+"SET seckill:stock:10 5\n"+cli+"XGROUP CREATE stream.order g1 0 MKSTREAM", env...)
	for i := range 3 {
		if got := sell(fmt.Sprint(1000 + i)); got != "0" {
			t.Fatalf("the script answers %s", got)
		}
	}
	for _, id := range strings.Fields(sh(t, dir, cli+"XREADGROUP GROUP g1 c1 STREAMS stream.order '>'", env...)) {
		if strings.Contains(id, "-") {
			sh(t, dir, cli+"XACK stream.order g1 "+id, env...)
		}
	}
	out := sh(t, dir, replaceAll(t, commands, "-p 6379", "-p "+portOf(shop)), env...)
	for _, want := range []string{"3 sold, 2 left", "pending\n0\n", "lag\n0\n", "open"} {
		if !strings.Contains(out, want) {
			t.Errorf("the change-over does not print %q:\n%s", want, out)
		}
	}
	if got := sell("1003"); got != "1" {
		t.Errorf("after the change-over the script answers %s, want 1", got)
	}
	awaitState(t, []*server{s}, "voucher-10", sluice.StateOpen)
	place := func(name string) (sluice.OrderID, string) {
		c := buyer(t, s.url, sluice.BuyerID(name), client.Options{})
		placed, err := c.Place(t.Context(), "voucher-10", client.NewKey(), api.PlaceOrder{Quantity: 1})
		return placed.OrderID, client.CodeOf(err)
	}
	awaitAvailable(t, s, "voucher-10", 3) // two are left, one came back
	var placed []sluice.OrderID
	for i, want := range []string{"forbidden", "forbidden", "", "", "", "sold_out"} {
		order, got := place(fmt.Sprint(1001 + i))
		if got != want {
			t.Errorf("buyer %d gets %q, want %q", 1001+i, got, want)
		}
		placed = append(placed, order)
	}
	awaitStored(t, s, "voucher-10")
	audit(t, s, "voucher-10", 0, "of what was sold")

	// Back: two are paid, one is cancelled.
	back = replaceAll(t, back, "-p 6379", "-p "+portOf(shop))
	pay := func(order sluice.OrderID) {
		t.Helper()
		must.Get(s.merchant().PayOrder(t.Context(), order, "pay-"+string(order)))(t)
	}
	pay(placed[2])
	must.Get(s.merchant().AdminCancelOrder(t.Context(), placed[3]))(t)
	pay(placed[4])
	awaitAvailable(t, s, "voucher-10", 1)
	if out := sh(t, dir, back, env...); !strings.Contains(out, "OK") {
		t.Errorf("back: %s", out)
	}
	for _, user := range []string{"1001", "1002", "1003", "1005"} {
		if got := sell(user); got != "2" {
			t.Errorf("user %s has an order, and the script answers %s", user, got)
		}
	}
	if first, second := sell("1004"), sell("1000"); first != "0" || second != "1" { // both have none; one unit is left
		t.Errorf("the script answers %s and %s", first, second)
	}
}

// awaitAvailable waits until a sale has so many units left.
func awaitAvailable(t *testing.T, s *server, sale sluice.SaleID, units int64) {
	t.Helper()
	await(t, "units of ended orders", func() bool {
		now, err := s.merchant().AdminSale(t.Context(), sale)
		return err == nil && now.Available != nil && *now.Available == units
	})
}

// claimFromBackend: rates see the buyer's address, and a repeat gets the same order.
func claimFromBackend(t *testing.T, s *server, code string, env []string) {
	javac := servertest.Program(t, "java", "javac")
	guide := snippets(t, "docs/integrate.md")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Mint.java"), next(t, &guide, "java", "class Mint"))
	write(t, filepath.Join(dir, "Claim.java"), code)
	sh(t, dir, javac+" Claim.java Mint.java", env...)
	sale := newSaleID()
	must.Get(s.merchant().CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(sale), SKU: "E2E-3", Title: "A third thing",
		Total: api.Value[int64](10), MaxPerBuyer: api.Value[int64](1),
		Price:   api.Some(sluice.Money{Amount: 100, Currency: "CNY"}),
		OpensAt: api.Some(api.At(time.Now().Add(-time.Minute))), ClosesAt: api.Null[api.Time](),
		PatchRules: api.PatchRules{AddressRate: api.Value(sluice.AddressRate{Requests: 2, PerS: 3600})},
	}))(t)
	awaitState(t, []*server{s}, sale, sluice.StateOpen)
	claim := func(buyer, address string) string {
		return sh(t, dir, "java -cp . Claim "+string(sale)+" "+buyer+" "+buyer+"-attempt-1 "+address,
			append(env, "SLUICE_BUYER_SECRET="+buyerSecret)...)
	}
	first := claim("user-1", "198.51.100.1")
	if again := claim("user-1", "198.51.100.1"); !strings.HasPrefix(first, "202 ") || again != first {
		t.Errorf("a claim: %s, its repeat: %s", first, again)
	}
	if got := claim("user-2", "198.51.100.1"); !strings.HasPrefix(got, strconv.Itoa(http.StatusTooManyRequests)) {
		t.Errorf("a third claim from one address: %s", got)
	}
	if got := claim("user-3", "198.51.100.2"); !strings.HasPrefix(got, "202 ") {
		t.Errorf("a claim from another address: %s", got)
	}
}

// The permissions that the page gives are those of docs/redis-keys.md, which the
// ledger's tests hold against what is used.
func TestTheLuaPageGivesTheDocumentedRights(t *testing.T) {
	rights := regexp.MustCompile(`(?m)^ACL SETUSER sluice reset on >\S+ (.*)$`)
	want := rights.FindStringSubmatch(read(t, "../../docs/redis-keys.md"))
	for _, page := range []string{"", ".zh-CN"} {
		got := rights.FindStringSubmatch(read(t, "../../docs/from-a-lua-script"+page+".md"))
		if len(want) == 0 || len(got) == 0 || got[1] != want[1] {
			t.Errorf("page%s: %q, want %q", page, got, want)
		}
	}
}

// The columns that the page names hold the longest ids, and no narrower ones do.
func TestWidthsOfColumns(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	widths := map[string]int{"order id": 0, "sale id": 0, "key": 0, "buyer id": 0}
	for _, page := range []string{"", ".zh-CN"} {
		column := regexp.MustCompile(`(?m)^\| ([^|]+?) \| .VARCHAR\((\d+)\)`)
		rows := column.FindAllStringSubmatch(read(t, "../../docs/from-a-lua-script"+page+".md"), -1)
		if len(rows) != 5 {
			t.Fatalf("page%s: %d columns, want 5", page, len(rows))
		}
		for i, name := range []string{"order id", "sale id", "key", "buyer id"} {
			width, err := strconv.Atoi(rows[i][2])
			if err != nil || widths[name] != 0 && widths[name] != width {
				t.Errorf("page%s: the %s has %s columns, the other page %d", page, rows[i][1], rows[i][2], widths[name])
			}
			widths[name] = width
		}
	}
	for name, valid := range map[string]func(n int) bool{
		"sale id":  func(n int) bool { return sluice.SaleID(long(n)).Validate() == nil },
		"key":      func(n int) bool { return sluice.Key(long(n)).Validate() == nil },
		"buyer id": func(n int) bool { return sluice.BuyerID(long(n)).Validate() == nil },
		"order id": func(n int) bool {
			_, ok := sluice.SaleID(long(n - len(".") - 32)).Order(long(32)).Sale()
			return ok
		},
	} {
		if n := widths[name]; !valid(n) || valid(n+1) {
			t.Errorf("%s: the longest is not of %d", name, n)
		}
	}
}

// wonBefore is what the query of the page selects from a shop's table: a buyer who paid,
// one who has not, and not those whose orders were cancelled, refunded or for another item.
func wonBefore(t *testing.T, query string) (rows string) {
	t.Helper()
	u := must.Get(url.Parse(servertest.MySQL(t)))(t)
	db := must.Get(sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path))(t)
	defer db.Close()
	for _, statement := range []string{
		"CREATE TABLE tb_voucher_order (id bigint PRIMARY KEY, user_id bigint, voucher_id bigint, status tinyint)",
		"INSERT INTO tb_voucher_order VALUES (71,1001,10,2), (72,1002,10,1), (73,1003,10,4), (74,1004,10,6), (75,1005,11,2)",
	} {
		must.Get(db.ExecContext(t.Context(), statement))(t)
	}
	got := must.Get(db.QueryContext(t.Context(), query))(t)
	defer got.Close()
	for got.Next() {
		var row string
		must.Succeed(t, got.Scan(&row))
		rows += row + "\n"
	}
	must.Succeed(t, got.Err())
	return rows
}
