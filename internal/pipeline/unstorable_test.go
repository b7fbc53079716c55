package pipeline_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loglimit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/store/pgstore"
)

// The database refuses the only entry of a sale, while nothing else is sold: it is tried
// as often as any, for a while, and set aside, whichever of three servers has it. When the database
// takes it, the letter can be replayed.
func TestOnARefusalAnEntryOfAQuietSaleIsSetAside(t *testing.T) {
	url := servertest.Postgres(t)
	db, err := sql.Open("pgx", url)
	db = storetest.Kept(t, db, err)
	store, err := pgstore.Open(t.Context(), url, pgstore.Options{})
	store = storetest.Kept(t, store, err)
	ledgers := make([]*redisledger.Ledger, 3)
	redis := servertest.Redis(t)
	for i := range ledgers {
		l, err := redisledger.Open(t.Context(), redis, redisledger.Options{Node: fmt.Sprint("n", i), Prefix: t.Name()})
		ledgers[i] = storetest.Kept(t, l, err)
	}
	must.Get(store.CreateSale(t.Context(), aSale()))(t)
	must.Succeed(t, settle.NewLoader(store, ledgers[0]).Load(t.Context(), sale))
	for _, statement := range []string{
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'closed for stocktaking'; END$$`,
		`CREATE TRIGGER shop BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()`,
	} {
		must.Get(db.Exec(statement))(t)
	}
	decisions, err := ledgers[0].Claim(t.Context(), sale, []sluice.Claim{{
		Buyer: "ann", Key: "attempt-1", Quantity: 1, Order: admission.NewOrderID(sale),
	}})
	if err != nil || decisions[0].Code != sluice.Accepted {
		t.Fatal(decisions, err)
	}
	var inserts, set atomic.Int64
	counted := &counting{Store: store, inserts: &inserts}
	pipelines := make([]*pipeline.Pipeline, len(ledgers))
	for i := range ledgers {
		pipelines[i] = pipeline.New(ledgers[i], counted, pipeline.Options{
			Backoff: 10 * time.Millisecond, Patience: 5 * time.Second, SetAside: func(sluice.SaleID) { set.Add(1) },
		})
		defer stop(pipelines[i])
	}
	var letters []port.DeadLetter
	eventually(t, "the dead letter", func() bool {
		for _, p := range pipelines {
			p.Wake(sale) // as the reading of a journal that is not empty does
		}
		letters, err = store.DeadLetters(t.Context(), sale)
		return err != nil || len(letters) > 0 && set.Load() > 0
	})
	if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Reason, "closed for stocktaking") {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if n := inserts.Load(); n < 5 || set.Load() != 1 {
		t.Errorf("set aside %d times, after %d attempts; want once, after more than 5", set.Load(), n)
	}
	must.Get(db.Exec(`DROP FUNCTION refuse() CASCADE`))(t)
	replayer := settle.NewReplayer(store, ledgers[0], settle.NewLoader(store, ledgers[0]),
		func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {})
	if _, err := replayer.Replay(t.Context(), letters[0].ID); err != nil {
		t.Error(err)
	}
	if _, err := store.Order(t.Context(), decisions[0].Order); err != nil {
		t.Errorf("after the replay: %v", err)
	}
}

// stop leaves in the journal what is there.
func stop(p *pipeline.Pipeline) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Close(ctx)
}

type counting struct {
	pipeline.Store
	inserts *atomic.Int64
}

func (c *counting) Insert(ctx context.Context, id sluice.SaleID, entries []port.Entry) (port.Stored, error) {
	c.inserts.Add(1)
	return c.Store.Insert(ctx, id, entries)
}

// passing is a journal of one entry, which each reading for abandoned entries hands to
// this server again, as happens when servers take it over from each other; and a store
// that fails as fails says.
type passing struct {
	port.Journal
	mu       sync.Mutex
	entry    port.Entry
	handed   bool
	acked    bool
	fails    func() error
	inserts  int
	setAside int
	log      bytes.Buffer
}

func (j *passing) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Write(line)
}

func (j *passing) ReadJournal(_ context.Context, read port.JournalRead) ([]port.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.acked || read.Source == port.Own || read.Source == port.New && j.handed {
		return nil, nil
	}
	j.handed = true
	return []port.Entry{j.entry}, nil
}

func (j *passing) Ack(context.Context, sluice.SaleID, []string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acked = true
	return nil
}

func (j *passing) Insert(context.Context, sluice.SaleID, []port.Entry) (port.Stored, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inserts++
	return port.Stored{}, j.fails()
}

func (j *passing) SetAside(context.Context, port.DeadLetter) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.setAside++
	return nil
}

// counts returns how often the entry was tried and set aside.
func (j *passing) counts() (inserts, setAside int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inserts, j.setAside
}

func (j *passing) FenceSale(context.Context, sluice.SaleID, int64, string) error { return nil }
func (j *passing) Ping(context.Context) error                                    { return nil }

// An entry that servers take over from each other is one suspect on each of them, not
// one more with each time; and while it is not stored the log says so, and does not say
// that it is over.
func TestASuspectThatComesAgainIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &passing{entry: port.Entry{
			ID: "1:1-0", Sale: sale, Epoch: 1, Node: "b", Terms: 1, At: time.Now(), FirstSeq: 1,
			Claims: []sluice.Claim{{Buyer: "ann", Key: "attempt-1", Quantity: 1, Order: admission.NewOrderID(sale)}},
		}}
		j.fails = func() error { return errors.New("no such column") }
		limit := loglimit.New(slog.NewTextHandler(j, nil))
		defer limit.Close()
		p := pipeline.New(j, j, pipeline.Options{Log: slog.New(limit)})
		p.Wake(sale)
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		inserts, setAside := j.counts()
		if most := 9*60/2 + 60; inserts < 200 || inserts > most || setAside != 0 {
			t.Errorf("tried %d times, set aside %d times; want up to %d, and not at all", inserts, setAside, most)
		}
		j.mu.Lock()
		text := j.log.String()
		j.mu.Unlock()
		if strings.Contains(text, "no longer") || strings.Count(text, "cannot be stored") < 50 {
			t.Errorf("the log of entries that are not stored yet:\n%s", text)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, setAside = j.counts(); setAside != 1 {
			t.Errorf("set aside %d times, want once", setAside)
		}
		stop(p)
	})
}

// An entry that is definitely refused is set aside within two minutes, however little
// else is sold, but not for a mistake in the database that stands for half a minute;
// none of the troubles of a database does that.
func TestOnlyARefusalCountsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			err  error
			want int
		}{
			"refused":               {fmt.Errorf("%w: SQLSTATE 23514", port.ErrUnstorable), 1},
			"busy":                  {fmt.Errorf("%w: lock timeout", sluice.ErrStoreBusy), 0},
			"refused as it is busy": {fmt.Errorf("%w: %w", port.ErrUnstorable, sluice.ErrStoreBusy), 0},
			"unknown":               {errors.New("permission denied"), 0},
		} {
			j := &passing{entry: port.Entry{ID: "1:1-0", Sale: sale, Epoch: 1, FirstSeq: 1, Claims: make([]sluice.Claim, 1)}}
			j.fails = func() error { return test.err }
			p := pipeline.New(j, j, pipeline.Options{})
			p.Wake(sale)
			time.Sleep(59 * time.Second)
			synctest.Wait()
			inserts, setAside := j.counts()
			if setAside != 0 {
				t.Errorf("%s: set aside within a minute, after %d attempts", name, inserts)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if inserts, setAside = j.counts(); setAside != test.want || inserts < 5 {
				t.Errorf("%s: set aside %d times within two minutes, after %d attempts; want %d", name, setAside, inserts,
					test.want)
			}
			stop(p)
		}
		j := &passing{entry: port.Entry{ID: "1:1-0", Sale: sale, Epoch: 1, FirstSeq: 1, Claims: make([]sluice.Claim, 1)}}
		begun := time.Now()
		j.fails = func() error {
			if time.Since(begun) < 30*time.Second {
				return port.ErrUnstorable
			}
			return nil
		}
		p := pipeline.New(j, j, pipeline.Options{})
		defer stop(p)
		p.Wake(sale)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, setAside := j.counts(); setAside != 0 || !j.acked {
			t.Errorf("a constraint that stood for 30 s: set aside %d times, stored %v", setAside, j.acked)
		}
	})
}

// refusing is a journal in memory, and a store that refuses all entries but the last.
type refusing struct {
	passing
	entries       []port.Entry
	handed        int // entries that were new
	again         int // entries that were read again
	done          map[string]bool
	stored, aside int
}

func (j *refusing) ReadJournal(_ context.Context, read port.JournalRead) (page []port.Entry, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	most := max(read.Max, 1)
	switch read.Source {
	case port.New:
		page = j.entries[j.handed:min(j.handed+most, len(j.entries))]
		j.handed += len(page)
	case port.Own:
		for _, e := range j.entries[:j.handed] {
			if !j.done[e.ID] && e.ID > read.After && len(page) < most {
				page = append(page, e)
			}
		}
		j.again += len(page)
	}
	return slices.Clone(page), nil
}

func (j *refusing) Ack(_ context.Context, _ sluice.SaleID, ids []string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		j.done[id] = true
	}
	return nil
}

func (j *refusing) Insert(_ context.Context, _ sluice.SaleID, entries []port.Entry) (port.Stored, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(entries) > 1 || entries[0].ID != j.entries[len(j.entries)-1].ID {
		return port.Stored{}, port.ErrUnstorable
	}
	j.stored++
	return port.Stored{}, nil
}

func (j *refusing) SetAside(context.Context, port.DeadLetter) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.aside++
	return nil
}

// Suspects are bounded in memory. Those beyond it wait in the journal: each is set
// aside in its turn, and what can be stored does not wait for them.
func TestSuspectsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2500
		j := &refusing{done: map[string]bool{}}
		for i := range n + 1 {
			j.entries = append(j.entries, port.Entry{
				ID: fmt.Sprintf("1:%06d-0", i), Sale: sale, Epoch: 1, FirstSeq: int64(i + 1), Claims: make([]sluice.Claim, 1),
			})
		}
		p := pipeline.New(j, j, pipeline.Options{})
		defer stop(p)
		p.Wake(sale)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		j.mu.Lock()
		if j.stored != 1 {
			t.Errorf("within half a minute %d are stored, want 1", j.stored)
		}
		j.mu.Unlock()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.aside != n || len(j.done) != n+1 || j.again == 0 {
			t.Errorf("%d set aside, %d acknowledged of %d; %d were read again", j.aside, len(j.done), n+1, j.again)
		}
	})
}

// A ledger that loses its latest writes has an entry again that this server has acknowledged. It is
// read again, and acknowledged once more, without a restart.
func TestALostAcknowledgementIsMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &refusing{done: map[string]bool{}, entries: []port.Entry{{
			ID: "1:1-0", Sale: sale, Epoch: 1, FirstSeq: 1, Claims: make([]sluice.Claim, 1),
		}}}
		p := pipeline.New(j, j, pipeline.Options{})
		defer stop(p)
		acknowledged := func() bool {
			for range 60 { // as whoever sees a backlog does
				p.Wake(sale)
				time.Sleep(time.Second)
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.done["1:1-0"]
		}
		if !acknowledged() {
			t.Fatal("the entry is not acknowledged")
		}
		j.mu.Lock()
		clear(j.done)
		j.mu.Unlock()
		if !acknowledged() {
			t.Error("the entry is in the journal again, and stays there")
		}
	})
}
