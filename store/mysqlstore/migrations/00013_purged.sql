-- Orders and events that are deleted after order_retention. remains is what is kept
-- of the orders of a sale, as JSON, from the first one on that is deleted; purged_at is
-- when the last one was. first_event is the first event that the feed still has. Each
-- step is skipped if it was made before: DDL commits by itself.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sales' AND column_name = 'purged_at') = 0,
    'ALTER TABLE sales ADD COLUMN purged_at DATETIME(3), ADD COLUMN remains MEDIUMTEXT', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.statistics
    WHERE table_schema = database() AND table_name = 'sales' AND index_name = 'sales_to_purge') = 0,
    'ALTER TABLE sales ADD INDEX sales_to_purge (purged_at, id, archived_at)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'event_feed' AND column_name = 'first_event') = 0,
    'ALTER TABLE event_feed ADD COLUMN first_event BIGINT NOT NULL DEFAULT 1 CHECK (first_event >= 1)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.statistics
    WHERE table_schema = database() AND table_name = 'order_events' AND index_name = 'order_events_of_sale') = 0,
    'ALTER TABLE order_events ADD INDEX order_events_of_sale (sale_id, last_event)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
