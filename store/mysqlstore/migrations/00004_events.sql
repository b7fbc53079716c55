-- Events: what was committed, numbered. Nothing is copied but the rows of sales,
-- which change: an order's events are its row and its changes.
--
-- Each statement is a transaction of its own. So that a migration which was cut
-- off can be run again, each looks whether it has been done.

-- +goose Up

-- One row. Whoever numbers holds it, so numbers are dense and in one order.
CREATE TABLE IF NOT EXISTS event_feed (
    id         BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    last_event BIGINT NOT NULL CHECK (last_event >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO event_feed (id, last_event) VALUES (1, 0) ON DUPLICATE KEY UPDATE id = id;

-- How far the orders of each sale have been numbered. Within a sale positions
-- grow in commit order, for the sale's row is locked while orders are inserted.
CREATE TABLE IF NOT EXISTS event_marks (
    sale_id  VARBINARY(48) NOT NULL PRIMARY KEY,
    position BIGINT        NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The events first_event to last_event are that the orders of a sale at the
-- positions after after_position, up to upto_position, were stored.
CREATE TABLE IF NOT EXISTS order_events (
    last_event     BIGINT        NOT NULL PRIMARY KEY,
    first_event    BIGINT        NOT NULL,
    sale_id        VARBINARY(48) NOT NULL,
    after_position BIGINT        NOT NULL,
    upto_position  BIGINT        NOT NULL,

    CONSTRAINT order_events_range CHECK (first_event BETWEEN 1 AND last_event AND upto_position > after_position)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The number of a change; NULL until it has one.
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'order_changes' AND column_name = 'event') = 0,
    'ALTER TABLE order_changes ADD COLUMN event BIGINT, ADD INDEX order_changes_event (event, position)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- Written by the transaction that changes a sale. sale is the row as it was
-- then, as JSON.
CREATE TABLE IF NOT EXISTS sale_events (
    position   BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sale_id    VARBINARY(48) NOT NULL,
    type       VARBINARY(32) NOT NULL,
    created_at DATETIME(3)   NOT NULL,
    sale       LONGTEXT      NOT NULL,
    event      BIGINT,

    INDEX sale_events_event (event, position)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
