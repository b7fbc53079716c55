-- Orders and events that are deleted after order_retention. remains is what is kept
-- of the orders of a sale, as JSON, from the first one on that is deleted; purged_at is
-- when the last one was. first_event is the first event that the feed still has. All is
-- locked until the end, so the sales come last, and the feed first, as in numbering.

-- +goose Up
SET LOCAL lock_timeout = '200ms';
ALTER TABLE event_feed ADD COLUMN first_event bigint NOT NULL DEFAULT 1 CHECK (first_event >= 1);
CREATE INDEX order_events_of_sale ON order_events (sale_id, last_event);
ALTER TABLE sales ADD COLUMN purged_at timestamptz(3), ADD COLUMN remains text;
CREATE INDEX sales_to_purge ON sales (id) WHERE purged_at IS NULL AND archived_at IS NOT NULL;
