package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// What servers are upgraded from: the newest version that was released, or before
// there is one, the commit that was; and the last that wrote format 1 to Redis.
const (
	oldVersion  = "c26eb17"
	lastFormat1 = "3636c90"
)

// buildOld builds an old version from the repository's history.
func buildOld(t *testing.T, oldVersion string) (path string) {
	t.Helper()
	folder := t.TempDir()
	archive := filepath.Join(folder, "old.tar")
	git := exec.Command("git", "archive", "--output="+archive, oldVersion)
	git.Dir = filepath.Join("..", "..")
	if out, err := git.CombinedOutput(); err != nil {
		servertest.Unavailable(t, "history", fmt.Sprintf("git has no %s, as in a shallow clone: %v %s", oldVersion, err, out))
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", oldVersion, err, out)
	}
	path = filepath.Join(folder, "sluice-old")
	// Without paths, so that the cache has the packages the next time.
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/sluice")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", oldVersion, err, out)
	}
	return path
}

// Three servers are upgraded one after the other while they sell, which migrates
// the database beside the old ones. Every promise of both versions is kept, and
// the new one ends and repeats what the old one has accepted. The first new server
// brings the open sales over to format 2: the old ones call them unavailable, and
// take nothing there for damaged. An old server does not start any more then, and
// says why.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	rolling(t, sharedBackends(t), buildOld(t, oldVersion), true, 12*time.Second)
}

func TestRollingUpgradeOnMySQL(t *testing.T) {
	t.Parallel()
	rolling(t, backends{servertest.Redis(t), servertest.MySQL(t)}, buildOld(t, oldVersion), true, 12*time.Second)
}

func TestRollingUpgradeFromFormat1(t *testing.T) {
	t.Parallel()
	rolling(t, sharedBackends(t), buildOld(t, lastFormat1), false, 12*time.Second)
}

// Redis is emptied while old and new servers sell together, and once more after an old one
// has been killed: servers of both versions rebuild, and every promise is kept.
func TestRedisIsEmptiedAmidAnUpgrade(t *testing.T) {
	t.Parallel()
	const total, perBuyer = 1_000_000, 50
	redis := servertest.StartRedis(t)
	on, old := backends{redis.URL(), servertest.Postgres(t)}, buildOld(t, oldVersion)
	var servers []*server
	var urls []string
	for range 3 {
		s := newServer(t, on)
		s.program = old
		s.launch()
		servers = append(servers, s)
	}
	for _, s := range servers {
		s.ready()
		urls = append(urls, s.url)
	}
	sale := createSale(t, servers[0], total, perBuyer)
	awaitState(t, servers, sale, sluice.StateOpen)
	rush := startRush(t, loadgen.Options{
		Sale: sale, Buyers: 500, Rate: 60, Duration: 15 * time.Second, Again: 0.1,
	}, urls, 51, 51, 52)
	var probes []loadgen.Promise
	empty := func(when string) {
		t.Helper()
		// What only the journal and a server that is gone know would be lost with the journal.
		await(t, "a moment in which all is stored", func() bool {
			now, err := servers[0].merchant().AdminSale(t.Context(), sale)
			return err == nil && now.Backlog == 0
		})
		redisCommand(t, redis.Addr(), "FLUSHALL")
		begun, probe := time.Now(), loadgen.Promise{Buyer: 900_000 + len(probes), Key: client.NewKey()}
		await(t, "a claim to be accepted "+when, func() bool {
			got, err := buyer(t, servers[0].url, loadgen.BuyerName(probe.Buyer), client.Options{PlaceAttempts: 1}).
				Place(t.Context(), sale, probe.Key, api.PlaceOrder{Quantity: 1})
			probe.Order = got.OrderID
			return err == nil
		})
		probes = append(probes, probe)
		t.Logf("%s: accepted again after %v", when, time.Since(begun).Round(time.Millisecond))
	}
	await(t, "a rush", func() bool { return rush.accepted() > 50 })
	if code := servers[0].terminate(); code != 0 {
		t.Errorf("the old server ends with %d", code)
	}
	servers[0].program = ""
	servers[0].start()
	empty("beside two old servers")
	servers[1].kill()
	empty("with an old server killed")
	servers[1].program = ""
	servers[1].start()
	empty("beside one old server")
	if code := servers[2].terminate(); code != 0 {
		t.Errorf("the old server ends with %d", code)
	}
	servers[2].program = ""
	servers[2].start()
	rush.wait()
	rush.outcomes = append(rush.outcomes, &loadgen.Outcome{Promises: probes})
	verify(t, servers[2], rush, total, perBuyer)
	for i, url := range urls {
		repeatAt(t, url, sale, rush.outcomes[(i+1)%len(urls)], 30, "after the upgrade")
	}
}

// The same for as long as SLUICE_TEST_SOAK says.
func TestSoakRollingUpgrade(t *testing.T) {
	end := time.Now().Add(soak(t))
	for old := buildOld(t, oldVersion); time.Now().Before(end) && !t.Failed(); {
		rolling(t, sharedBackends(t), old, true, time.Minute)
		rolling(t, backends{servertest.Redis(t), servertest.MySQL(t)}, old, true, time.Minute)
	}
}

func rolling(t *testing.T, on backends, old string, migrates bool, lasting time.Duration,
) {
	t.Helper()
	const total, perBuyer = 1_000_000, 50
	var servers []*server
	var urls []string
	for range 3 {
		s := newServer(t, on)
		s.program = old
		s.launch()
		servers = append(servers, s)
	}
	for _, s := range servers {
		s.ready()
		urls = append(urls, s.url)
	}
	sale := createSale(t, servers[0], total, perBuyer)
	sales, ending := []sluice.SaleID{sale}, sale
	if !migrates { // a server of the older version reads no sale beside one of a later format
		ending = createSale(t, servers[0], total, perBuyer)
		sales = append(sales, ending)
	}
	for _, id := range sales {
		awaitState(t, servers, id, sluice.StateOpen)
	}
	rush := startRush(t, loadgen.Options{
		Sale: sale, Buyers: 500, Rate: 100, Duration: lasting, Again: 0.1,
	}, urls, 51, 51, 52)
	if ending != sale {
		exchange(t, urls, ending)
	}
	for i, s := range servers {
		if !rush.awaitDecided(rush.planned() * int64(i+1) / 5) {
			t.Fatal("the rush was over too soon")
		}
		if code := s.terminate(); code != 0 {
			t.Errorf("the old server ends with %d", code)
		}
		if i == 1 && migrates { // the first one has migrated the database
			refusesToStart(t, s)
		}
		s.program = ""
		s.start()
		for _, id := range sales {
			awaitState(t, servers[:i+1], id, sluice.StateOpen)
			awaitState(t, servers[i+1:], id, sluice.StateUnavailable)
		}
		if ending != sale {
			exchange(t, urls[:i+1], ending)
		}
	}
	verify(t, servers[2], rush, total, perBuyer)
	for i, url := range urls {
		repeatAt(t, url, sale, rush.outcomes[(i+1)%len(urls)], 30, "after the upgrade")
	}
	if ending != sale {
		await(t, "every unit to be back", func() bool {
			got, err := servers[0].merchant().AdminSale(t.Context(), ending)
			return err == nil && got.Taken == 0 && got.StoredTaken == 0
		})
		audit(t, servers[1], ending, 0, "after the upgrade")
	}
	for _, id := range sales {
		if got, err := servers[0].merchant().AdminSale(t.Context(), id); err != nil || got.Epoch < 2 {
			t.Errorf("%+v, %v; want it brought over by a load", got, err)
		}
		if letters, err := servers[0].merchant().DeadLetters(t.Context(), id); err != nil || len(letters) > 0 {
			t.Errorf("entries that a version could not read: %+v, %v", letters, err)
		}
	}
}

// exchange has each server accept an order, the next one end it and the last one
// repeat it.
func exchange(t *testing.T, urls []string, sale sluice.SaleID) {
	t.Helper()
	for i := range urls {
		name := sluice.BuyerID(client.NewKey())
		at := func(n int) *client.Client { return buyer(t, urls[(i+n)%len(urls)], name, client.Options{}) }
		key, one := client.NewKey(), api.PlaceOrder{Quantity: 1}
		placed, err := at(0).Place(t.Context(), sale, key, one)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "an order that is cancelled", func() bool { // it may not be stored yet
			order, err := at(1).CancelOrder(t.Context(), placed.OrderID)
			return err == nil && order.Status == sluice.Cancelled
		})
		if again, err := at(2).Place(t.Context(), sale, key, one); err != nil || again.OrderID != placed.OrderID ||
			!again.Replayed {
			t.Errorf("%s repeated: %+v, %v (I4)", placed.OrderID, again, err)
		}
	}
}

// refusesToStart starts the server's program, which must end and say that it is
// too old.
func refusesToStart(t *testing.T, s *server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, append([]string{"serve", "--listen", s.addr}, s.on.flags(s.dir)...)...)
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() < 1 ||
		!strings.Contains(string(out), "a newer sluice has migrated it") {
		t.Errorf("an old server after the migration: %v\n%s", err, out)
	}
}

// The first new server dies in the middle of bringing a sale over, which has orders that
// are not stored yet, an entry that no version can read, and a buyer who has left too many
// orders unpaid. The next one brings it over. An old server that lives meanwhile leaves the
// sale alone.
func TestAnUpgradeFromFormat1BreaksOff(t *testing.T) {
	old := buildOld(t, lastFormat1)
	for name, beside := range map[string]bool{"alone": false, "beside an old server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			breaksOff(t, old, beside)
		})
	}
}

func breaksOff(t *testing.T, old string, beside bool) {
	t.Helper()
	redis, postgres := servertest.StartRedis(t), servertest.StartPostgres(t)
	s, other := newServer(t, backends{redis.URL(), postgres.URL()}), newServer(t, backends{redis.URL(), postgres.URL()})
	s.program, other.program = old, old
	s.start()
	if beside {
		other.start()
	}
	sale := newSaleID()
	_, err := s.merchant().CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(sale), SKU: "E2E-1", Title: "A thing", Price: api.Some(sluice.Money{Amount: 100, Currency: "CNY"}),
		Total: api.Value[int64](1_000_000), MaxPerBuyer: api.Value[int64](1), MaxUnpaidPerBuyer: api.Value[int64](2),
		OpensAt: api.Some(api.At(time.Now().Add(-time.Minute))), ClosesAt: api.Null[api.Time](),
	})
	if err != nil {
		t.Fatal(err)
	}
	type promise struct {
		buyer sluice.BuyerID
		key   sluice.Key
		order sluice.OrderID
	}
	var promises []promise
	place := func(name sluice.BuyerID) (order sluice.OrderID, err error) {
		key := client.NewKey()
		got, err := buyer(t, s.url, name, client.Options{}).Place(t.Context(), sale, key, api.PlaceOrder{Quantity: 1})
		if err == nil {
			promises = append(promises, promise{name, key, got.OrderID})
		}
		return got.OrderID, err
	}
	must := func(order sluice.OrderID, err error) sluice.OrderID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return order
	}
	for range 2 {
		order := must(place("leaver"))
		await(t, "an order that is cancelled", func() bool {
			got, err := buyer(t, s.url, "leaver", client.Options{}).CancelOrder(t.Context(), order)
			return err == nil && got.Status == sluice.Cancelled
		})
		await(t, "its unit to be back", func() bool {
			got, err := s.merchant().AdminSale(t.Context(), sale)
			return err == nil && got.Taken == 0
		})
	}
	for i := range 30 {
		must(place(sluice.BuyerID(fmt.Sprint("stored-", i))))
	}
	awaitStored(t, s, sale)
	postgres.Stop(t)
	for i := range 30 {
		must(place(sluice.BuyerID(fmt.Sprint("pending-", i))))
	}
	s.kill()
	keys := "sluice:{" + string(sale) + "}:"
	redisCommand(t, redis.Addr(), "HINCRBY "+keys+"sale entries 1")
	redisCommand(t, redis.Addr(), "XADD "+keys+"journal * v 9 e 1 n other c nonsense")
	postgres.Start(t)

	loading := func() bool {
		fence, err := redis.Ask("HGET " + keys + "sale fence")
		return err == nil && slices.Contains(fence, sluice.FenceLoading)
	}
	var halfway atomic.Bool // from then on nothing passes
	proxy := servertest.StartProxy(t, func(net.Conn) (string, func() bool) {
		return redis.Addr(), func() bool {
			if !halfway.Load() && loading() {
				halfway.Store(true)
			}
			return halfway.Load()
		}
	})
	s.program, s.on.ledger = "", "redis://"+proxy
	s.launch()
	await(t, "a load that is under way", halfway.Load)
	s.kill()
	if s.on.ledger = redis.URL(); !loading() {
		fence, err := redis.Ask("HGETALL " + keys + "sale")
		t.Fatalf("the load has ended before the server died: %v, %v", fence, err)
	}
	if beside {
		awaitState(t, []*server{other}, sale, sluice.StateUnavailable)
		got, err := buyer(t, other.url, "early", client.Options{PlaceAttempts: 1}).
			Place(t.Context(), sale, client.NewKey(), api.PlaceOrder{Quantity: 1})
		if err == nil || !loading() {
			t.Errorf("an old server sells, or has changed what it does not know: %+v", got)
		}
	}
	s.start()
	awaitState(t, []*server{s}, sale, sluice.StateOpen)

	for _, p := range promises {
		got, err := buyer(t, s.url, p.buyer, client.Options{}).Place(t.Context(), sale, p.key, api.PlaceOrder{Quantity: 1})
		if err != nil || got.OrderID != p.order || !got.Replayed {
			t.Errorf("%s was promised %s and gets %+v, %v (I4)", p.buyer, p.order, got, err)
		}
	}
	if _, err := place("leaver"); err == nil || !strings.Contains(err.Error(), sluice.BuyerLimit.String()) {
		t.Errorf("a buyer who left two orders unpaid gets %v", err)
	}
	must(place("late"))
	awaitStored(t, s, sale)
	got, err := s.merchant().AdminSale(t.Context(), sale)
	if err != nil || got.Taken != 61 || got.StoredTaken != 61 {
		t.Errorf("%+v, %v; want 61 units taken", got, err)
	}
	letters, err := s.merchant().DeadLetters(t.Context(), sale)
	if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Claims, "nonsense") {
		t.Errorf("dead letters %+v, %v; want the entry that no version can read", letters, err)
	}
	audit(t, s, sale, 0, "after the upgrade")
}
