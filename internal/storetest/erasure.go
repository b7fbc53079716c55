package storetest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// erasing is a store that has a key for pseudonyms.
func erasing(t *testing.T, db Database, key string) port.Store {
	t.Helper()
	s := db.Open(t)
	must.Get(s.SealSecrets(t.Context(), key))(t)
	return s
}

const erasureKey = "0123456789abcdef0123456789abcdef"

// Whatever is personal of this buyer has the number in it.
const (
	personal    = "4711"
	erasedBuyer = sluice.BuyerID("buyer-" + personal)
)

// personalClaims is an entry of claims of the buyer and of another.
func personalClaims(src *source, n int) port.Entry {
	e := src.entry(n + 1)
	for i := range n {
		c := &e.Claims[i]
		c.Buyer, c.Key, c.Meta = erasedBuyer, sluice.Key(fmt.Sprintf("key-4711-%04d", i)), `{"phone":"4711"}`
		c.Counters = "home:4711=9"
	}
	return e
}

// everything is all that the store says of its sales, as text: orders with their
// histories, events, dead letters, actions of admins, and lists.
func everything(t *testing.T, s port.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	orders, _ := pages(t, s, sluice.OrderFilter{Limit: sluice.MaxPage})
	for _, o := range orders {
		all["order "+string(o.ID)] = fmt.Sprintf("%+v %+v", o, history(t, s, o.ID))
	}
	for _, e := range feed(t, s, sluice.MaxPage) {
		all[fmt.Sprint("event ", e.Seq)] = fmt.Sprintf("%+v", e)
	}
	for id := int64(1); id < 10; id++ {
		if l, err := s.DeadLetter(t.Context(), id); err == nil {
			all[fmt.Sprint("letter ", id)] = fmt.Sprintf("%+v", l)
		}
	}
	for _, a := range actions(t, s, 100) {
		all[fmt.Sprint("action ", a.ID)] = fmt.Sprintf("%+v", a)
	}
	return all
}

// eventIDs are the ids of all events, in order: receivers keep them.
func eventIDs(t *testing.T, s port.Store) (ids []string) {
	t.Helper()
	for _, e := range feed(t, s, sluice.MaxPage) {
		ids = append(ids, e.ID())
	}
	return ids
}

func erase(t *testing.T, s port.Store, want sluice.Erased) {
	t.Helper()
	got, err := s.EraseBuyer(t.Context(), erasedBuyer)
	sameErased(t, want, got, err)
}

func eraseOlder(t *testing.T, s port.Store, want sluice.Erased) {
	t.Helper()
	got, err := s.EraseOlder(t.Context(), time.Hour)
	sameErased(t, want, got, err)
}

func sameErased(t *testing.T, want, got sluice.Erased, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("erased (-want +got):\n%s", diff)
	}
}

// allTake stores n orders of the buyer and one of another in a new sale, and takes
// an action on all of them; the buyer's payments are personal.
func allTake(t *testing.T, s port.Store, id sluice.SaleID, n int, action sluice.Action) port.Entry {
	t.Helper()
	entry := personalClaims(selling(t, s, id, 1000), n)
	insert(t, s, port.Stored{Inserted: n + 1}, entry)
	for i, c := range entry.Claims {
		each := want(c.Order, action)
		if action == sluice.Pay && c.Buyer == erasedBuyer {
			each.PaymentID = fmt.Sprintf("pay-4711-%s-%d", id, i)
		}
		change(t, s, each)
	}
	return entry
}

// letterOf is a dead letter with the lines of these claims.
func letterOf(id sluice.SaleID, entry string, claims ...sluice.Claim) port.DeadLetter {
	letter := aLetter(id, 1, entry)
	letter.Claims = ""
	for i := range claims {
		letter.Claims += string(port.AppendClaim(nil, &claims[i]))
	}
	return letter
}

// twoHoursAgo moves a time in rows of a table back.
func twoHoursAgo(t *testing.T, db Database, table, column, rows string) {
	t.Helper()
	db.Execute(t, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", table, column, db.Earlier(column, "7200"), rows))
}

// atOnce runs two functions at the same time; wait fails the test if one fails.
func atOnce(t *testing.T, a, b func(context.Context) error) (wait func()) {
	done := make(chan error, 2)
	ctx := context.WithoutCancel(t.Context())
	go func() { done <- a(ctx) }()
	go func() { done <- b(ctx) }()
	return func() {
		t.Helper()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

// archivedSale closes a sale, resolves its letters and archives it.
func archivedSale(t *testing.T, s port.Store, id sluice.SaleID) {
	t.Helper()
	closed(t, s, id)
	given(t, s)
	letters := must.Get(s.DeadLetters(t.Context(), id))(t)
	for i := range letters {
		must.Succeed(t, s.ResolveDeadLetter(t.Context(), letters[i].ID, "stored"))
	}
	if is, err := s.Archive(t.Context(), id); err != nil || !is {
		t.Fatalf("archive %s: %v, %v", id, is, err)
	}
}

// A buyer is erased where sales are archived, and only there; all that is counted
// stays, and so does everything of the others.
func testErase(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	var entries []port.Entry
	for _, id := range []sluice.SaleID{"phones", "radios", "tablets"} {
		create(t, s, aSale(id, 100))
		entry := personalClaims(&source{sale: id, epoch: 1}, 3)
		insert(t, s, port.Stored{Inserted: 4}, entry)
		entries = append(entries, entry)
		pay := want(entry.Claims[0].Order, sluice.Pay)
		pay.PaymentID = "pay-4711-1-" + string(id)
		change(t, s, pay)
		change(t, s, pay)
		pay.PaymentID = "pay-4711-2"
		if _, err := s.Change(t.Context(), pay); err == nil {
			t.Error("a second payment was not refused")
		}
		for _, c := range entry.Claims[1:] {
			change(t, s, want(c.Order, sluice.Cancel))
		}
		damaged := aLetter(id, 1, "damaged")
		damaged.Claims, damaged.Reason = "\x00buyer-4711\tkey", "cannot read buyer-4711"
		for _, l := range []port.DeadLetter{letterOf(id, "whole", entry.Claims...), damaged, aLetter(id, 1, "other")} {
			must.Succeed(t, s.SetAside(t.Context(), l))
		}
		list := func(yield func(sluice.BuyerID, error) bool) { yield(erasedBuyer, nil) }
		must.Get(s.ReplaceList(t.Context(), id, sluice.AllowList, list))(t)
	}
	refused := port.AdminAction{
		By: "buyer:" + string(erasedBuyer), Status: 403, Address: "192.0.2.47",
		Path: "/v1/admin/webhooks/" + string(erasedBuyer), Request: string(erasedBuyer) + "-1",
	}
	recordAction(t, s, refused)
	recordAction(t, s, port.AdminAction{By: "buyer:other", Status: 403, Address: "192.0.2.9"})
	must.Get(s.NumberEvents(t.Context(), 1000))(t)
	archivedSale(t, s, "phones")
	archivedSale(t, s, "radios")
	late := entries[0].Claims[1].Order // is paid after its sale was archived
	pay := want(late, sluice.Pay)
	pay.PaymentID = "pay-4711-3"
	change(t, s, pay)
	must.Get(s.NumberEvents(t.Context(), 1000))(t)
	before, ids := everything(t, s), eventIDs(t, s)
	sums := map[sluice.SaleID]contents{}
	for _, id := range []sluice.SaleID{"phones", "radios", "tablets"} {
		sums[id] = mustBeSound(t, s, id)
	}

	waits := []sluice.ErasureWait{
		{Sale: "phones", Why: sluice.OwedRefund},
		{Sale: "tablets", Why: sluice.NotArchived},
		{Sale: "tablets", Why: sluice.OnList},
	}
	erase(t, s, sluice.Erased{Orders: 5, DeadLetters: 4, Actions: 1, Waits: waits})
	erase(t, s, sluice.Erased{Waits: waits})

	if diff := cmp.Diff(ids, eventIDs(t, s)); diff != "" {
		t.Errorf("ids of events (-were +are):\n%s", diff)
	}
	after := everything(t, s)
	if len(after) != len(before) {
		t.Errorf("%d things, %d before", len(after), len(before))
	}
	for name, was := range before {
		now := after[name]
		waiting := strings.Contains(was, "tablets") || strings.Contains(was, string(late))
		switch {
		case waiting || !strings.Contains(was, personal) && !strings.Contains(was, "192.0.2.47"):
			if diff := cmp.Diff(was, now); diff != "" && !strings.Contains(name, "letter") {
				t.Errorf("%s was to stay as it is (-was +is):\n%s", name, diff)
			}
		case strings.Contains(now, personal) || strings.Contains(now, "192.0.2.47"):
			t.Errorf("%s names the buyer: %s", name, now)
		}
	}
	for id, was := range sums {
		is := mustBeSound(t, s, id)
		if diff := cmp.Diff(was.Sale, is.Sale); diff != "" || len(was.Orders) != len(is.Orders) {
			t.Errorf("sale %s (-was +is), %d orders:\n%s", id, len(is.Orders), diff)
		}
	}
	for _, e := range entries { // I4 for the others
		other := e.Claims[3]
		if o, err := s.Claim(t.Context(), sluice.ClaimID{Sale: e.Sale, Buyer: other.Buyer, Key: other.Key}); err != nil ||
			o.ID != other.Order {
			t.Errorf("the claim of another buyer: %v, %v", o.ID, err)
		}
	}
	// One pseudonym in all sales; another key makes another one.
	pseudonyms := map[sluice.BuyerID]bool{}
	for _, e := range entries[:2] {
		o, err := s.Order(t.Context(), e.Claims[2].Order)
		if err != nil || !regexp.MustCompile(`^erased-[0-9a-f]{32}$`).MatchString(string(o.Buyer)) {
			t.Errorf("order of %q, %v", o.Buyer, err)
		}
		pseudonyms[o.Buyer] = true
	}
	if len(pseudonyms) != 1 {
		t.Errorf("pseudonyms %v, want one", pseudonyms)
	}
	again := want(entries[0].Claims[0].Order, sluice.Pay)
	again.PaymentID = "pay-4711-1-phones"
	if o, err := s.Change(t.Context(), again); err != nil || o.Status != sluice.Paid {
		t.Errorf("the payment of an erased order again: %+v, %v", o.Status, err)
	}

	// When nothing waits any more, the rest is erased.
	change(t, s, want(late, sluice.Refund))
	archivedSale(t, s, "tablets")
	erase(t, s, sluice.Erased{Orders: 4, DeadLetters: 2})
	for name, text := range everything(t, s) {
		if strings.Contains(text, personal) {
			t.Errorf("%s names the buyer: %s", name, text)
		}
	}
	if lists, err := s.Lists(t.Context()); err != nil || len(lists) != 0 {
		t.Errorf("lists %v, %v", lists, err)
	}
}

// The pseudonyms need a key, and differ by it.
func testEraseKeys(t *testing.T, db Database) {
	plain := db.Open(t)
	_, err := plain.EraseBuyer(t.Context(), erasedBuyer)
	wantError(t, err, sluice.ErrNoErasureKey)
	_, err = plain.EraseOlder(t.Context(), time.Hour)
	wantError(t, err, sluice.ErrNoErasureKey)
	seen := map[sluice.BuyerID]bool{}
	for _, key := range []string{erasureKey, "another key of thirty-two bytes.."} {
		id := sluice.SaleID(fmt.Sprint("sale-", len(seen)))
		s := erasing(t, db, key)
		if _, err := s.EraseBuyer(t.Context(), ""); err == nil {
			t.Error("a buyer without an id was erased")
		}
		entry := allTake(t, s, id, 1, sluice.Cancel)
		archivedSale(t, s, id)
		erase(t, s, sluice.Erased{Orders: 1})
		seen[read1(t, s, entry.Claims[0].Order).Buyer] = true
	}
	if len(seen) != 2 {
		t.Errorf("pseudonyms %v, want two", seen)
	}
	reader := db.OpenReadOnly(t)
	must.Get(reader.SealSecrets(t.Context(), erasureKey))(t)
	if _, err := reader.EraseBuyer(t.Context(), erasedBuyer); err == nil {
		t.Error("a reader erases")
	}
}

// Erasing is cut off in the middle: each order is erased with all its history or
// not at all, and the next call erases the rest.
func testEraseCutOff(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	const many = 250
	entry := allTake(t, s, "phones", many, sluice.Pay)
	archivedSale(t, s, "phones")
	free := db.Hold(t, fmt.Sprintf("UPDATE orders SET meta = meta WHERE order_id = '%s'", entry.Claims[150].Order))
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if done, err := s.EraseBuyer(short, erasedBuyer); err == nil {
		t.Errorf("erased beside a held order: %+v", done)
	}
	free()
	left := 0
	for name, text := range everything(t, s) {
		if strings.Contains(text, "erased-") && strings.Contains(text, personal) {
			t.Errorf("%s is half erased: %s", name, text)
		}
		if strings.HasPrefix(name, "order ") && strings.Contains(text, personal) {
			left++
		}
	}
	t.Logf("%d of %d orders are left", left, many)
	if left == 0 {
		t.Error("nothing was left")
	}
	erase(t, s, sluice.Erased{Orders: int64(left)})
	erase(t, s, sluice.Erased{})
	mustBeSound(t, s, "phones")
}
