// Package storetest is the conformance suite of port.Store. Every adapter
// runs it against the real database.
//
// Each test is about one promise of the port; the random run compares a store
// with a reference model that shares no code with any adapter.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// Database is an empty database of one test.
type Database struct {
	// Open returns a handle like a server's. The suite opens several on one
	// database; the adapter's test closes them when the test ends.
	Open func(t *testing.T) port.Store
	// OpenReadOnly returns a handle like the audit's.
	OpenReadOnly func(t *testing.T) port.Store
	// OpenAhead returns a handle for which the database's clock is so far ahead.
	OpenAhead func(t *testing.T, by time.Duration) port.Store
	// Hold runs one SQL statement in a transaction that stays open until free.
	Hold func(t *testing.T, statement string) (free func())
	// Age makes the orders of a sale older: stored_at, expires_at, keep_until
	// and updated_at go back by this much.
	Age func(t *testing.T, sale sluice.SaleID, by time.Duration)
	// Earlier is the expression of a time so many seconds before that of the
	// column; seconds is an expression, too.
	Earlier func(column, seconds string) string
	// Refuse is a statement after which a trigger of the shop's refuses orders of more
	// than one unit; Accept ends that.
	Refuse, Accept string
	// Execute runs one SQL statement behind the store's back, to plant damage.
	Execute func(t *testing.T, statement string)
	// Try runs a statement that may fail.
	Try func(t *testing.T, statement string) error
}

// Databases makes an empty Database for each test; what tests may share, it
// makes before.
type Databases func(t *testing.T) (create func(t *testing.T) Database)

// Run runs the suite; with -short, the tests of what happens together.
func (databases Databases) Run(t *testing.T) {
	create := databases(t)
	tests := together
	if !testing.Short() {
		tests = slices.Concat(alone, together)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, create(t)) })
	}
}

// RunAlone runs the tests in which one goroutine uses the store: every method,
// for an adapter that has passed Run and reaches its database another way.
func (databases Databases) RunAlone(t *testing.T) {
	inFull(t)
	create := databases(t)
	for _, test := range alone {
		t.Run(test.name, func(t *testing.T) { test.run(t, create(t)) })
	}
}

// inFull skips with -short a test in which one goroutine does all.
func inFull(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine does all of this: it runs without -short")
	}
}

type storeTest struct {
	name string
	run  func(*testing.T, Database)
}

// In these one goroutine does all, one thing after the other.
var alone = []storeTest{
	{"CreateSale", testCreateSale},
	{"CreateSaleRefusesWhatIsInvalid", testCreateInvalid},
	{"AbsentLimits", testAbsentLimits},
	{"TextsComeBackAsTheyWere", testTexts},
	{"SalesAreListedByOpeningTime", testSales},
	{"SalesAreSelected", testSelectSales},
	{"SalesThatAreUnchanged", testUnchangedSales},
	{"ChangeSale", testChangeSale},
	{"ChangeSaleThatIsRefusedWritesNothing", testChangeRefused},
	{"FenceSale", testFence},

	{"InsertStoresOrders", testInsert},
	{"InsertNothing", testInsertNothing},
	{"InsertRefusesWhatNoLedgerWrites", testInsertInvalid},
	{"RedeliveryInsertsNothing", testRedelivery},
	{"RedeliveryWithinABatch", testRedeliveryWithin},
	{"ConflictsStoreNothing", testConflicts},
	{"EqualKeysOfTwoBuyersAreTwoClaims", testEqualKeys},
	{"IdsDifferByEveryByte", testExactIDs},
	{"SequenceRestartsWithTheEpoch", testEpochs},
	{"BeyondTheTotalIsNotCovered", testNotCovered},
	{"NotCoveredAmongOthers", testNotCoveredMixed},
	{"CancelledInsertIsAllOrNothing", testCancelledInsert},
	{"UnstorableIsForGood", testUnstorable},
	{"TheDatabaseChecksRows", testChecks},
	{"OrdersOfAFreeSaleArePaid", testFree},

	{"OldEpochsBringNothingNew", testOldEpochs},

	{"StateMachine", testStateMachine},
	{"ChangeOfOthersOrders", testChangeOfOthers},
	{"UnpaidEndings", testUnpaidEndings},
	{"ChangeRefusesWhatIsInvalid", testChangeInvalid},
	{"PaymentConflict", testPaymentConflict},
	{"PaymentAmount", testPaymentAmount},
	{"Extend", testExtend},
	{"ExtendInvalid", testExtendInvalid},
	{"PaymentOfAnother", testPaymentOfAnother},
	{"PaymentLeftOver", testPaymentLeftOver},
	{"History", testHistory},
	{"ExpireDue", testExpireDue},
	{"ExpiryIsInTime", testExpiryIsInTime},
	{"Releases", testReleases},
	{"ReleasesComeAgain", testReleasesComeAgain},
	{"ReleasesOfOthersGoOn", testReleasesOfOthersGoOn},

	{"Rules", testRules},
	{"Restock", testRestock},
	{"RestockThatIsRefusedWritesNothing", testRestockRefused},
	{"LateClaimsUnderTheOldTotal", testCap},
	{"CapOfASaleWithoutATotal", testCapOfNoTotal},
	{"Archive", testArchive},
	{"DeleteSale", testDeleteSale},
	{"Showcase", testShowcase},
	{"Claim", testClaim},
	{"ResolveDeadLetter", testResolveDeadLetter},

	{"Erase", testErase},
	{"EraseKeys", testEraseKeys},
	{"EraseCutOff", testEraseCutOff},
	{"EraseOlder", testEraseOlder},
	{"EraseOlderGoesOn", testEraseOlderGoesOn},
	{"EraseLeftOvers", testEraseLeftOvers},
	{"EraseTurns", testEraseTurns},

	{"Purge", testPurge},
	{"PurgeAfterJump", testPurgeAfterJump},
	{"RemainsUnreadable", testRemainsUnreadable},
	{"PurgeWaitsForWebhooks", testPurgeWaitsForWebhooks},
	{"PurgeCutOff", testPurgeCutOff},
	{"PurgeNewestOrder", testPurgeNewestOrder},

	{"Returning", testReturning},
	{"ReissueRelease", testReissueRelease},
	{"ReissueReleaseConditions", testReissueReleaseConditions},
	{"ReissueReleaseOfAnArchivedSale", testReissueReleaseArchived},
	{"RecountTaken", testRecountTaken},
	{"RecountBeyondTheCap", testRecountBeyondTheCap},

	{"Backlog", testBacklog},

	{"Leases", testLeases},
	{"LeaseExpires", testLeaseExpires},
	{"Heartbeats", testHeartbeats},
	{"ClockStepsBack", testClockStepsBack},
	{"Gathered", testGathered},
	{"TakeSale", testTakeSale},
	{"Recovery", testRecovery},
	{"RecoveryEndsOrders", testEndAgain},
	{"Tidy", testTidy},

	{"Lists", testLists},
	{"ListsThatAreNotReplaced", testListsThatAreNotReplaced},
	{"LongList", testLongList},
	{"Clock", testClock},
	{"TheDatabasesClockJudges", testDatabasesClock},

	{"AdminActions", testAdminActions},
	{"AdminActionsOfStrangeTexts", testAdminActionsOfStrangeTexts},

	{"Order", testOrder},
	{"OrdersInPages", testPages},
	{"OrdersByFilter", testFilters},
	{"OrderByPayment", testByPayment},
	{"PagesStayWhileOrdersCome", testPagesWhileInserting},
	{"BadCursors", testBadCursors},
	{"CursorOfABuyer", testCursorOfABuyer},

	{"Events", testEvents},
	{"EventsOfNothing", testEventsOfNothing},
	{"EventsInSmallSteps", testEventsInSmallSteps},
	{"Webhooks", testWebhooks},
	{"WebhookSecretsAreSealed", testWebhookSecrets},
	{"WebhookProgress", testWebhookProgress},

	{"Load", testLoad},
	{"LoadImageHoldsEveryClaim", testLoadRecords},
	{"LoadPassesTermsThatTheStoreForgot", testLoadPassesTerms},
	{"Stretches", testStretches},
	{"LastSeq", testLastSeq},
	{"DeadLetters", testDeadLetters},
	{"DamagedDeadLetters", testDamagedDeadLetters},
	{"Snapshot", testSnapshot},
	{"SnapshotOfEndings", testSnapshotOfEndings},
	{"ReadOnly", testReadOnly},
}

// In these several goroutines use the store. The last two go through all
// methods.
var together = []storeTest{
	{"ChangesFollowEachOther", testConcurrentChanges},
	{"ReleasesInOtherHands", testReleasesInOtherHands},
	{"PaymentAgainstExpiry", testPaymentAgainstExpiry},
	{"PaymentAgainstCancel", testPaymentAgainstCancel},
	{"TimeIsReadAfterTheLock", testTimeAfterLock},
	{"SameChangeTwice", testSameChangeTwice},
	{"PaymentOfTwo", testPaymentOfTwo},
	{"ExtendAgainstExpiry", testExtendAgainstExpiry},
	{"ConcurrentExpiry", testConcurrentExpiry},
	{"ConcurrentGivers", testConcurrentGivers},
	{"LoadsAgainstEndings", testLoadsAgainstEndings},
	{"EverythingAtOnce", testEverythingAtOnce},
	{"ConcurrentRestocks", testConcurrentRestock},
	{"RestockAgainstInserts", testRestockAgainstInserts},
	{"ReadingLeavesChangesAConnection", testReadingLeavesAConnection},
	{"ArchiveAgainstRefund", testArchiveAgainstRefund},
	{"ArchiveAgainstChanges", testArchiveAgainstChanges},
	{"EraseAgainstRefunds", testEraseAgainstRefunds},
	{"EraseTwoOfOneLetter", testEraseTwoOfOneLetter},
	{"ConcurrentPurge", testConcurrentPurge},
	{"ConcurrentResolve", testConcurrentResolve},
	{"ConcurrentReissue", testConcurrentReissue},
	{"ReissueAgainstEndings", testReissueAgainstEndings},
	{"RecountAgainstChanges", testRecountAgainstChanges},
	{"ConcurrentLeases", testConcurrentLeases},
	{"ConcurrentHeartbeats", testConcurrentHeartbeats},
	{"ConcurrentLists", testConcurrentLists},
	{"CapHoldsAmongManyWriters", testConcurrentCap},
	{"ServersThatRedeliverTogether", testConcurrentRedelivery},
	{"SnapshotWhileWritersRun", testSnapshotConsistency},
	{"AdminActionsInPages", testAdminActionsInPages},
	{"EventsWhileWritersRun", testEventsWhileWritersRun},
	{"WebhookRivals", testWebhookRivals},
	{"Closed", testClosed},
	{"RandomRun", testRandom},
}

// aSale is a valid sale, open since a while.
func aSale(id sluice.SaleID, total int64) sluice.Sale {
	return sluice.Sale{
		ID: id, SKU: "sku-1", Title: "A thing",
		Price: sluice.Money{Amount: 199900, Currency: "CNY"}, ListPrice: sluice.Money{Amount: 299900, Currency: "CNY"},
		Terms: sluice.Terms{
			Total: total, MaxPerBuyer: 2, MaxOrders: 11, MaxUnpaid: 2,
			OpensAt: time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC), ClosesAt: time.Date(2026, 11, 12, 12, 0, 0, 0, time.UTC),
		},
		PaymentWindow: 15 * time.Minute, PaymentGrace: 30 * time.Second,
	}
}

// create adds a sale and loads it under epoch 1.
func create(t testing.TB, s port.Store, sale sluice.Sale) sluice.Sale {
	t.Helper()
	must.Get(s.CreateSale(t.Context(), sale))(t)
	image := must.Get(s.BeginLoad(t.Context(), sale.ID, 0))(t)
	must.Succeed(t, s.ConfirmLoad(t.Context(), sale.ID, image.Epoch))
	return read(t, s, sale.ID)
}

func read(t testing.TB, s port.Store, id sluice.SaleID) sluice.Sale {
	t.Helper()
	sale := must.Get(s.Sale(t.Context(), id))(t)
	return sale
}

// acceptedAt is when the claims of these tests were accepted.
var acceptedAt = time.Date(2026, 11, 11, 12, 0, 0, 123e6, time.UTC)

// source writes journal entries as a ledger does.
type source struct {
	sale  sluice.SaleID
	epoch int64
	seq   int64 // the last one given
	made  int
}

// selling creates a sale, loads it, and returns its journal.
func selling(t testing.TB, s port.Store, id sluice.SaleID, total int64) *source {
	t.Helper()
	create(t, s, aSale(id, total))
	return &source{sale: id, epoch: 1}
}

// store stores n orders of n new buyers, one unit each.
func (s *source) store(t *testing.T, store port.Store, n int) port.Entry {
	t.Helper()
	e := s.entry(n)
	insert(t, store, port.Stored{Inserted: n}, e)
	return e
}

// entry returns an entry of n claims of n new buyers, one unit each.
func (s *source) entry(n int) port.Entry {
	quantities := make([]int64, n)
	for i := range quantities {
		quantities[i] = 1
	}
	return s.entryOf(quantities...)
}

// entryOf returns an entry of claims with these quantities, by new buyers.
func (s *source) entryOf(quantities ...int64) port.Entry {
	e := port.Entry{
		ID: fmt.Sprintf("%d-%d", s.epoch, s.seq+1), Sale: s.sale, Epoch: s.epoch, Node: "node-1", Terms: 1,
		At: acceptedAt.Add(time.Duration(s.seq) * time.Millisecond), FirstSeq: s.seq + 1, Deliveries: 1,
	}
	for _, quantity := range quantities {
		s.seq++
		s.made++
		e.Claims = append(e.Claims, sluice.Claim{
			Buyer: sluice.BuyerID(fmt.Sprintf("buyer-%d-%d", s.epoch, s.made)), Key: sluice.Key(fmt.Sprintf("key-%08d", s.made)),
			Quantity: quantity, Order: s.sale.Order(fmt.Sprintf("%016x%016x", s.epoch, s.made)), Meta: `{"n":1}`,
			Counters: "home:17=9 city:1=1000000000000",
		})
	}
	return e
}

// insert stores entries and fails the test unless the outcome is the given one.
func insert(t *testing.T, s port.Store, want port.Stored, entries ...port.Entry) {
	t.Helper()
	got := must.Get(s.Insert(t.Context(), entries[0].Sale, entries))(t)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("stored (-want +got):\n%s", diff)
	}
}

// split cuts an entry into two at claim i, as a ledger might hand it out.
func split(e port.Entry, i int) (port.Entry, port.Entry) {
	a, b := e, e
	a.Claims, b.Claims = e.Claims[:i:i], slices.Clone(e.Claims[i:])
	b.ID, b.FirstSeq = e.ID+"-b", e.FirstSeq+int64(i)
	return a, b
}

// contents is everything the store says of a sale, at one moment.
type contents struct {
	Sale    sluice.Sale
	Terms   []sluice.Terms
	Orders  []sluice.Order
	Letters []port.DeadLetter
}

func look(t *testing.T, s port.Store, id sluice.SaleID) contents {
	t.Helper()
	c := must.Get(lookInto(t.Context(), s, id))(t)
	return c
}

func lookInto(ctx context.Context, s port.Store, id sluice.SaleID) (c contents, err error) {
	err = s.Snapshot(ctx, id, func(snap port.Snapshot) (err error) {
		c = contents{Sale: snap.Sale(), Terms: snap.TermsVersions()}
		if err := snap.Orders(func(o sluice.Order) bool { c.Orders = append(c.Orders, o); return true }); err != nil {
			return err
		}
		c.Letters, err = snap.DeadLetters()
		return err
	})
	return c, err
}

// sound checks what must hold of a sale at any moment.
func (c *contents) sound() error {
	units := int64(0)
	seen := map[sluice.OrderID]bool{}
	for i := range c.Orders {
		o := &c.Orders[i]
		if o.Status.Live() {
			units += o.Quantity
		}
		if seen[o.ID] {
			return fmt.Errorf("order %s is there twice (I5)", o.ID)
		}
		seen[o.ID] = true
	}
	if units != c.Sale.Taken {
		return fmt.Errorf("the live orders hold %d units, taken is %d (I2)", units, c.Sale.Taken)
	}
	if c.Sale.Cap != sluice.Unlimited && units > c.Sale.Cap {
		return fmt.Errorf("the live orders hold %d units of %d (I1)", units, c.Sale.Cap)
	}
	if (c.Sale.Cap == sluice.Unlimited) != (c.Sale.Total == sluice.Unlimited) || c.Sale.Cap < c.Sale.Total {
		return fmt.Errorf("cap %d, total %d", c.Sale.Cap, c.Sale.Total)
	}
	if n := len(c.Terms); n == 0 || c.Terms[n-1] != c.Sale.Terms {
		return fmt.Errorf("the last of %d versions of the terms is not the sale's", n)
	}
	return nil
}

func mustBeSound(t *testing.T, s port.Store, id sluice.SaleID) contents {
	t.Helper()
	c := look(t, s, id)
	must.Succeed(t, c.sound())
	return c
}

// unchanged runs do and fails the test if the sale's contents changed.
func unchanged(t *testing.T, s port.Store, id sluice.SaleID, do func()) {
	t.Helper()
	before := look(t, s, id)
	do()
	if diff := cmp.Diff(before, look(t, s, id)); diff != "" {
		t.Errorf("the sale changed (-before +after):\n%s", diff)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// differ is cmp.Diff for long lists: reflection only if something differs.
func differ[T comparable](want, got []T) string {
	if slices.Equal(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}
