package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/metrics"
	"github.com/sluicehq/sluice/internal/notify"
)

// eventJobs tell the merchant what happens to orders and sales.
type eventJobs struct {
	numberer *notify.Numberer
	sender   *notify.Sender
	client   *notify.Client
}

func (j *eventJobs) compose(e *Engine, counts *metrics.Metrics) {
	counters := counts.Events()
	j.client = notify.NewClient("1")
	j.sender = notify.NewSender(e.store, notify.SenderOptions{
		Node: e.node, Post: j.client.Post, Encode: encodeEvent, Observer: counters, Log: e.cfg.Log,
	})
	j.numberer = notify.NewNumberer(e.store, notify.NumbererOptions{
		Node: e.node, Numbered: func(n int) { counters.Numbered(n); j.sender.Wake() }, Log: e.cfg.Log,
	})
}

// encodeEvent is the body of a webhook: the event as the feed has it.
func encodeEvent(e *sluice.Event) ([]byte, error) { return json.Marshal(httpapi.EventMessage(e)) }

func (j *eventJobs) start(ctx context.Context, e *Engine) {
	e.loops.Go(func() { j.numberer.Run(ctx) })
	e.loops.Go(func() {
		j.sender.Run(ctx)
		j.client.Close()
	})
}

// sealWebhooks has the store keep the secrets of webhooks encrypted: with the key
// that was given, or, where the store is this server's own file, with one of the
// data folder. Other stores have many servers, of which each would make its own:
// without a key they keep the secrets in clear, which is warned of.
func (e *Engine) sealWebhooks(ctx context.Context) (err error) {
	key := e.cfg.WebhookKey
	if _, own := sqlitePath(e.cfg.Store); own {
		if key, err = e.folder.secret(key, "webhook.key"); err != nil {
			return err
		}
	}
	if key == "" && e.cfg.RecordRetention > 0 {
		return errors.New("record_retention needs a webhook_key (SLUICE_WEBHOOK_KEY), the same on every server: " +
			"pseudonyms of buyers are made with it")
	}
	clear, err := e.store.SealSecrets(ctx, key)
	if err != nil {
		e.cfg.Log.Warn("secrets of webhooks are not what they should be", "error", err)
	}
	if clear > 0 {
		e.cfg.Log.Warn("the secrets of webhooks are in the database in clear; want the same webhook_key "+
			"(SLUICE_WEBHOOK_KEY) on every server", "webhooks", clear)
	}
	return nil
}
