package settle_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/settle"
)

// diary is a store that writes down what a rebuild does, and when.
type diary struct {
	settle.RebuildStore
	taken bool // another server has the lease

	mu    sync.Mutex
	steps []string
	times []time.Time
}

func (s *diary) write(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps, s.times = append(s.steps, step), append(s.times, time.Now())
}

func (s *diary) Lease(ctx context.Context, name, holder string, fence int64, ttl time.Duration) (int64, error) {
	s.write("lease")
	if s.taken {
		return 0, nil
	}
	return s.RebuildStore.Lease(ctx, name, holder, fence, ttl)
}

func (s *diary) MarkGathered(ctx context.Context, sale sluice.SaleID, epoch int64, node, ledger string) error {
	s.write("gathered")
	return s.RebuildStore.MarkGathered(ctx, sale, epoch, node, ledger)
}

func (s *diary) BeginLoad(ctx context.Context, sale sluice.SaleID, epoch int64) (sluice.LoadImage, error) {
	s.write("load")
	return s.RebuildStore.BeginLoad(ctx, sale, epoch)
}

func (s *diary) ConfirmLoad(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	s.write("confirm")
	return s.RebuildStore.ConfirmLoad(ctx, sale, epoch)
}

// ofFormat1 is a sale whose ledger holds it in an older format, and a server of this version.
func ofFormat1(t *testing.T) (r *rig, store *diary, server *settle.Rebuilder, fenced sluice.Sale) {
	t.Helper()
	r = newRig(t)
	if _, err := r.desk.Create(t.Context(), phone(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Heartbeat(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := r.store.FenceSale(t.Context(), id, 1, sluice.FenceFormat+" 1: the test says so"); err != nil {
		t.Fatal(err)
	}
	store = &diary{RebuildStore: r.store}
	server = settle.NewRebuilder("a", store, r.ledger, settle.NewLoader(store, r.ledger), settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
	return r, store, server, r.sale()
}

// A server of the version before loads the sale as it was if it gets the lease once all
// servers have gathered. So a server of this version has the lease before it says so.
func TestTheLeaseComesBeforeTheMark(t *testing.T) {
	r, store, server, fenced := ofFormat1(t)
	if done, err := server.Step(t.Context(), &fenced); !done || err != nil {
		t.Fatal(done, err)
	}
	if got := strings.Join(slices.Compact(store.steps), " "); got != "lease gathered load confirm" {
		t.Errorf("steps %q", got)
	}
	r.inStep(2)

	r, store, server, fenced = ofFormat1(t)
	store.taken = true // by a server of this version, which waits for all others
	if done, err := server.Step(t.Context(), &fenced); done || err != nil {
		t.Fatal(done, err)
	}
	if got := strings.Join(slices.Compact(store.steps), " "); got != "lease gathered" {
		t.Errorf("steps %q", got)
	}
	if sale := r.sale(); sale.Epoch != 1 || sale.Fence == "" {
		t.Errorf("%+v", sale)
	}
}

// A server that looked at the sale before it was rebuilt, and fenced again, rebuilds nothing
// by what it saw.
func TestAnOldLookRebuildsNothing(t *testing.T) {
	r, _, server, fenced := ofFormat1(t)
	if done, err := server.Step(t.Context(), &fenced); !done || err != nil {
		t.Fatal(done, err)
	}
	if err := r.store.FenceSale(t.Context(), id, 2, "lost: by the test"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Step(t.Context(), &fenced); err != nil {
		t.Fatal(err)
	}
	if sale := r.sale(); sale.Epoch != 2 || sale.Fence == "" {
		t.Errorf("%+v", sale)
	}
}

// The load waits until the other servers have stored what they remember, though not for
// ever, and the store says that the sale is loaded only when they have noticed that they
// cannot read it any more.
func TestOlderServersAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, server, fenced := ofFormat1(t)
		defer r.beats("b")()
		if done, err := server.Step(t.Context(), &fenced); done || err == nil || slices.Contains(store.steps, "load") {
			t.Fatalf("%v, %v, steps %q; want an error, since b has not gathered", done, err, store.steps)
		}
		time.AfterFunc(3*time.Second, func() {
			if err := store.MarkGathered(t.Context(), id, 1, "b", ""); err != nil {
				t.Error(err)
			}
		})
		store.steps, store.times = nil, nil // one mark is this server's, the other that of b
		if done, err := server.Step(t.Context(), &fenced); !done || err != nil {
			t.Fatal(done, err)
		}
		store.confirmsLate(t)
		r.inStep(2)
	})
}

// The same of a load that another server had begun, and that this one repeats.
func TestOlderServersAreWaitedForByWhoAdopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, server, _ := ofFormat1(t)
		defer r.beats("b")()
		image, err := r.store.BeginLoad(t.Context(), id, 0)
		if err == nil {
			err = r.ledger.Load(t.Context(), image)
		}
		if err != nil {
			t.Fatal(err)
		}
		begun := r.sale()
		if done, err := server.Adopt(t.Context(), &begun); !done || err != nil {
			t.Fatal(done, err)
		}
		store.confirmsLate(t)
		r.inStep(3)
	})
}

// confirmsLate fails the test unless the load is confirmed after the others have noticed
// that they cannot read the sale.
func (s *diary) confirmsLate(t *testing.T) {
	t.Helper()
	load, confirm := slices.Index(s.steps, "load"), slices.Index(s.steps, "confirm")
	if load < 0 || confirm < load || slices.Contains(s.steps[load:], "gathered") {
		t.Fatalf("steps %q", s.steps)
	}
	if pause := s.times[confirm].Sub(s.times[load]); pause < 3*time.Second {
		t.Errorf("confirmed %v after the load began; others go by their last reading for three seconds", pause)
	}
}

// beats has another server live until the returned function is called.
func (r *rig) beats(node string) (end func()) {
	beat := func() {
		if err := r.store.Heartbeat(r.t.Context(), node); err != nil {
			r.t.Error(err)
		}
	}
	beat()
	stop := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				beat()
			}
		}
	})
	return func() {
		close(stop)
		beats.Wait()
	}
}
