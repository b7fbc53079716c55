package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// A sale is sold in part, exported, and imported into another one by a server that is
// killed on the way: then the import is repeated. The other sale sells the rest, with
// the same limits.
func TestImport(t *testing.T) {
	for name, on := range map[string]func(*testing.T) backends{
		"sqlite":             nil,
		"redis and postgres": sharedBackends,
		"postgres alone":     postgresAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if on == nil {
				s := startServer(t, backends{})
				importRound(t, s, s)
				return
			}
			shared := on(t)
			importRound(t, startServer(t, shared), startServer(t, shared))
		})
	}
}

// importRound has a server import; another one watches the sale all the time.
func importRound(t *testing.T, s, other *server) {
	const total, perBuyer, more = 5000, 2, 2500
	from := createSale(t, s, total, perBuyer)
	awaitState(t, []*server{s}, from, sluice.StateOpen)
	rush := startRush(t, loadgen.Options{Sale: from, Buyers: 200, Connections: 16}, []string{s.url}, 5)
	rush.wait()
	awaitStored(t, s, from)
	refusesExport := func(words string) {
		t.Helper()
		_, err := sluiceCommand(s, "", "sale", "export", string(from))
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the export: %v, want %q", err, words)
		}
	}
	refusesExport("pause or close")
	if _, err := s.merchant().PauseSale(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	stored := storedOrders(t, s, from)
	refusesExport("unpaid")
	for i := range stored {
		if i%17 == 0 { // no longer live: not exported
			if _, err := s.merchant().AdminCancelOrder(t.Context(), stored[i].OrderID); err != nil {
				t.Fatal(err)
			}
		} else if _, err := s.merchant().PayOrder(t.Context(), stored[i].OrderID, fmt.Sprint("pay-", from, i)); err != nil {
			t.Fatal(err)
		}
	}
	file, err := sluiceCommand(s, "", "sale", "export", string(from))
	live := int64(strings.Count(file, "\n") - 1)
	if err != nil || live < 150 {
		t.Fatalf("%d lines, %v", live, err)
	}
	whole := strings.Builder{} // with orders of another shop, so that there are several transactions
	whole.WriteString(file)
	for i := range more {
		fmt.Fprintf(&whole, "shopper-%d,1,WC-%d\n", i, i)
	}
	file = whole.String()

	to := newSaleID()
	if _, err := s.merchant().CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(to), SKU: "E2E-2", Title: "The same thing", Price: api.Some(sluice.Money{Amount: 100, Currency: "CNY"}),
		Total: api.Value[int64](total), MaxPerBuyer: api.Value[int64](perBuyer),
		OpensAt: api.Some(api.At(time.Now().Add(time.Hour))), ClosesAt: api.Null[api.Time](),
	}); err != nil {
		t.Fatal(err)
	}
	broken := make(chan error, 1)
	go func() {
		_, err := sluiceCommand(s, file, "sale", "import", string(to), "-")
		broken <- err
	}()
	await(t, "a part of the import", func() bool {
		now, err := s.merchant().AdminSale(t.Context(), to)
		return err == nil && (now.StoredTaken > 0 || now.Paused)
	})
	s.kill()
	interrupted := <-broken
	s.launch()
	s.ready()
	await(t, "the import's repeat", func() bool {
		_, err = sluiceCommand(s, file, "sale", "import", string(to), "-")
		return err == nil
	})
	sale, err := s.merchant().ResumeSale(t.Context(), to)
	if err != nil || sale.State != sluice.StateUpcoming || sale.StoredTaken != sale.Taken || sale.Taken != live+more {
		t.Errorf("after the import (first: %v): %+v, %v", interrupted, sale, err)
	}
	again, err := sluiceCommand(s, "", "sale", "export", string(to))
	if err != nil || again != file {
		t.Errorf("exported again it is another file, %v", err)
	}
	a, b := audit(t, s, from, 0, "of the first sale"), audit(t, s, to, 0, "of the second")
	for side, want := range map[*sluice.AuditFigures]int64{a.Figures: live, b.Figures: live + more} {
		if side.Store.Taken != want || side.Ledger.Taken != want || side.Store.LiveUnits != want {
			t.Errorf("taken %d in the store, %d in the ledger, want %d", side.Store.Taken, side.Ledger.Taken, want)
		}
	}
	if _, err := s.merchant().OpenSale(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	awaitState(t, []*server{s, other}, to, sluice.StateOpen)
	code := func(name sluice.BuyerID) string {
		c := buyer(t, other.url, name, client.Options{})
		_, err := c.Place(t.Context(), to, client.NewKey(), api.PlaceOrder{Quantity: perBuyer})
		return client.CodeOf(err)
	}
	if got := code(stored[1].BuyerID); got != "buyer_limit" { // 1 bought there, 2 more are beyond the limit
		t.Errorf("a buyer of the first sale gets %q", got)
	}
	if got := code(stored[0].BuyerID); got != "" { // it was cancelled
		t.Errorf("a buyer whose order was cancelled gets %q", got)
	}
	awaitStored(t, s, to)
	audit(t, s, to, 0, "after a claim")
}

// sluiceCommand runs the command with this input, and returns what it writes.
func sluiceCommand(s *server, input string, args ...string) (stdout string, err error) {
	cmd := exec.CommandContext(s.t.Context(), binary, append(args, "--url", s.url)...)
	cmd.Env, cmd.Stdin = environment(), strings.NewReader(input)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%w: %s", err, problems.String())
	}
	return out.String(), err
}
