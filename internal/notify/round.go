package notify

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

const (
	// window is how many events a round looks at.
	window = 256
	// atOnce bounds the attempts under way to one webhook.
	atOnce = 16
	// roundTime bounds how long a round begins attempts, so that what it has
	// done is recorded before long.
	roundTime = 5 * time.Second
	// downAfter failures without a success in between a webhook counts as down:
	// then one attempt at a time probes whether it is back, instead of each
	// event failing for itself.
	downAfter = 8
	// backAfter: a success after so many failures means that the webhook was
	// down and is back, so all that waits is tried at once. Fewer may have been
	// the events' own fault.
	backAfter = downAfter + 3
	// maxRetryAfter bounds what a receiver can ask to wait.
	maxRetryAfter = time.Hour
)

// round is one round of a webhook: it takes the events after the cursor, and
// the kept ones that are due, tries them, and records what came of it in one
// transaction.
//
// Every event is delivered at least once: the cursor passes it only in the
// transaction that records its delivery or keeps it. If the server dies before
// that, the next one sends the round's events again, under the same ids.
//
// Events of one subject are delivered one after the other, in their order: while
// one of them is kept, the later ones are kept behind it. Events of different
// subjects go side by side. An event that is given up (failed) lets the later
// ones pass.
type round struct {
	s       *Sender
	webhook sluice.Webhook

	fresh []*job // the events after the cursor, all of them
	due   []*job

	mu        sync.Mutex
	failures  int // without a success in between, those before this round too
	succeeded bool
	gone      bool // the receiver wants no more, ever
	stopped   bool
	last      error // of the last failed attempt
	deadline  time.Time
}

// job is one event of a round.
type job struct {
	event  sluice.Event
	kept   *sluice.Delivery // if it was kept before
	state  jobState
	answer Answer
	err    error
}

type jobState int

const (
	untried jobState = iota
	unwanted
	blocked // behind a kept one of its subject
	delivered
	failed
)

// run makes the round. It reports whether another one may have something to do.
func (r *round) run(ctx context.Context) (more bool, err error) {
	r.failures = r.webhook.Failures
	if err := r.gather(ctx); err != nil || len(r.fresh)+len(r.due) == 0 {
		return false, err
	}
	r.deadline = time.Now().Add(roundTime)
	r.try(ctx)
	return r.record(ctx)
}

// gather reads what there is to do.
func (r *round) gather(ctx context.Context) error {
	w, limit := &r.webhook, window
	events, err := r.s.store.Events(ctx, w.Cursor, limit)
	if err != nil {
		return err
	}
	lag := int64(len(events))
	if len(events) == limit {
		last, err := r.s.store.LastEvent(ctx)
		if err != nil {
			return err
		}
		lag = last - w.Cursor
	}
	r.s.setLag(w.ID, lag)
	due, err := r.s.store.DueDeliveries(ctx, w.ID, limit)
	if err != nil {
		return err
	}
	if w.Failures >= downAfter { // one attempt, in turns of an old event and a new one: either may be the one that fails
		if len(due) > 0 && (w.Failures%2 == 0 || len(events) == 0) {
			due, events = due[:1], nil
		} else {
			due, events = nil, events[:min(1, len(events))]
		}
	}
	for i := range events {
		r.fresh = append(r.fresh, &job{event: events[i]})
	}
	if err := r.readDue(ctx, due); err != nil {
		return err
	}
	return r.hold(ctx)
}

// readDue reads the events of kept deliveries. They often follow each other.
func (r *round) readDue(ctx context.Context, due []sluice.Delivery) error {
	var page []sluice.Event
	for i := range due {
		seq := due[i].Event
		if len(page) == 0 || seq > page[len(page)-1].Seq {
			limit := 1
			if i+1 < len(due) && due[i+1].Event < seq+window {
				limit = window
			}
			var err error
			if page, err = r.s.store.Events(ctx, seq-1, limit); err != nil {
				return err
			}
			if len(page) == 0 {
				return fmt.Errorf("event %d is kept, and is not in the feed", seq)
			}
		}
		r.due = append(r.due, &job{event: page[seq-page[0].Seq], kept: &due[i]})
	}
	return nil
}

// hold finds the new events that are not to be tried now.
func (r *round) hold(ctx context.Context) error {
	var subjects []string
	for _, j := range r.fresh {
		if !r.webhook.Wants(j.event.Type) {
			j.state = unwanted
			continue
		}
		subjects = append(subjects, j.event.Subject())
	}
	kept, err := r.s.store.HeldSubjects(ctx, r.webhook.ID, subjects)
	if err != nil {
		return err
	}
	behind := map[string]bool{}
	for _, subject := range kept {
		behind[subject] = true
	}
	for _, j := range r.fresh {
		if j.state == untried && behind[j.event.Subject()] {
			j.state = blocked
		}
	}
	return nil
}

// try makes the attempts: chains of one subject each, side by side.
func (r *round) try(ctx context.Context) {
	var chains [][]*job
	for _, j := range r.due {
		chains = append(chains, []*job{j})
	}
	at := map[string]int{}
	for _, j := range r.fresh {
		if j.state != untried {
			continue
		}
		subject := j.event.Subject()
		if i, ok := at[subject]; ok {
			chains[i] = append(chains[i], j)
			continue
		}
		at[subject] = len(chains)
		chains = append(chains, []*job{j})
	}
	queue := make(chan []*job, len(chains))
	for _, c := range chains {
		queue <- c
	}
	close(queue)
	var working sync.WaitGroup
	for range min(atOnce, len(chains)) {
		working.Go(func() {
			for chain := range queue {
				r.chain(ctx, chain)
			}
		})
	}
	working.Wait()
}

// chain tries events of one subject until one is not delivered.
func (r *round) chain(ctx context.Context, jobs []*job) {
	for i, j := range jobs {
		if !r.mayTry(ctx) {
			return
		}
		r.attempt(ctx, j)
		if j.state == delivered {
			continue
		}
		if j.state == failed {
			for _, later := range jobs[i+1:] {
				later.state = blocked
			}
		}
		return
	}
}

func (r *round) mayTry(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped && ctx.Err() == nil && time.Now().Before(r.deadline) && r.s.covered()
}

// attempt posts one event. An attempt that is broken off because this server
// stops counts as none.
func (r *round) attempt(ctx context.Context, j *job) {
	body, err := r.s.Encode(&j.event)
	if err == nil {
		j.answer, err = r.s.Try(ctx, &r.webhook, j.event.ID(), body)
	}
	if err != nil && ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		j.state, r.failures, r.succeeded = delivered, 0, true
		return
	}
	j.state, j.err, r.last = failed, err, err
	if !r.stopped { // attempts that were under way together count once
		r.failures++
	}
	r.gone = r.gone || j.answer.Status == http.StatusGone
	r.stopped = r.stopped || r.gone || r.failures >= downAfter
}

func statusError(status int) error {
	switch {
	case status == http.StatusGone:
		return fmt.Errorf("HTTP %d: the receiver wants no more events", status)
	case status >= 300 && status <= 399:
		return fmt.Errorf("HTTP %d: redirects are not followed", status)
	}
	if text := http.StatusText(status); text != "" {
		return fmt.Errorf("HTTP %d %s", status, text)
	}
	return fmt.Errorf("HTTP %d", status)
}

// record writes what came of the round, also when this server is stopping.
func (r *round) record(ctx context.Context) (more bool, err error) {
	p, parked := r.progress(time.Now())
	if p.To == p.From && len(p.Tried) == 0 && len(p.Kept) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	done, err := r.s.store.Advance(ctx, r.webhook.ID, p)
	if err != nil || !done {
		return false, err
	}
	tried := 0
	for _, j := range r.jobs() {
		if j.state == failed {
			tried++
		}
	}
	r.s.Observer.Tried(int(p.Delivered), tried, parked)
	switch {
	case r.gone:
		r.s.Log.Warn("a webhook's receiver wants no more events; it is disabled", "webhook", r.webhook.ID)
		_, err = r.s.store.DisableWebhook(ctx, r.webhook.ID, statusError(http.StatusGone).Error())
		return false, err
	case r.webhook.Failures < downAfter && p.Failures >= downAfter:
		r.s.Log.Warn("a webhook is down; its events wait", "webhook", r.webhook.ID, "error", r.last)
	case p.Recovered:
		r.s.Log.Info("a webhook is back", "webhook", r.webhook.ID)
	}
	if parked > 0 {
		r.s.Log.Warn("events were given up; list them and replay them", "webhook", r.webhook.ID, "events", parked, "error",
			r.last)
	}
	return true, nil
}

func (r *round) jobs() []*job { return append(append([]*job{}, r.due...), r.fresh...) }

// progress sums the round up.
func (r *round) progress(now time.Time) (p port.Progress, parked int) {
	p = port.Progress{From: r.webhook.Cursor, Failures: r.failures, Recovered: r.succeeded &&
		r.webhook.Failures >= backAfter}
	if r.failures >= downAfter {
		p.RetryAt = now.Add(r.probeAfter())
	}
	if r.succeeded {
		p.LastSuccess = now
	}
	if r.last != nil {
		p.LastFailure, p.LastError = now, shorten(r.last.Error())
	}
	for _, j := range r.due {
		switch j.state {
		case delivered:
			p.Delivered++
			p.Tried = append(p.Tried, port.Tried{Delivery: *j.kept, Done: true})
		case failed:
			after := r.after(*j.kept, j, now)
			if after.State == sluice.DeliveryFailed {
				parked++
			}
			p.Tried = append(p.Tried, port.Tried{Delivery: *j.kept, After: after})
		case untried, unwanted, blocked:
		}
	}
	fresh := r.fresh // the last ones that were not tried stay behind the cursor
	for len(fresh) > 0 && fresh[len(fresh)-1].state == untried {
		fresh = fresh[:len(fresh)-1]
	}
	p.To = p.From + int64(len(fresh))
	for _, j := range fresh {
		d := sluice.Delivery{Event: j.event.Seq, Subject: j.event.Subject(), State: sluice.DeliveryPending}
		switch j.state {
		case unwanted:
		case delivered:
			p.Delivered++
		case untried, blocked:
			p.Kept = append(p.Kept, d)
		case failed:
			d = r.after(d, j, now)
			if d.State == sluice.DeliveryFailed {
				parked++
			}
			p.Kept = append(p.Kept, d)
		}
	}
	return p, parked
}

// after is a delivery after an attempt that failed.
func (r *round) after(d sluice.Delivery, j *job, now time.Time) sluice.Delivery {
	d.Attempts++
	d.LastStatus, d.LastError = j.answer.Status, shorten(j.err.Error())
	if d.Attempts > len(r.s.Backoff) {
		d.State, d.NextAt = sluice.DeliveryFailed, now
		return d
	}
	d.NextAt = now.Add(max(jitter(r.s.Backoff[d.Attempts-1]), min(j.answer.RetryAfter, maxRetryAfter)))
	return d
}

// probeAfter is how long a webhook that is down is left alone.
func (r *round) probeAfter() time.Duration {
	wait := r.s.Probe
	for n := downAfter; n < r.failures && wait < r.s.MaxProbe; n++ {
		wait *= 2
	}
	return jitter(min(wait, r.s.MaxProbe))
}

// shorten keeps what a receiver says from filling the store.
func shorten(text string) string {
	if len(text) > 300 {
		return text[:300] + "…"
	}
	return text
}
