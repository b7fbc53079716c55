-- Events: what was committed, numbered. Nothing is copied but the rows of sales,
-- which change: an order's events are its row and its changes.

-- +goose Up

-- One row. Whoever numbers holds it, so numbers are dense and in one order.
CREATE TABLE event_feed (
    id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    last_event INTEGER NOT NULL CHECK (last_event >= 0)
) STRICT;

INSERT INTO event_feed (id, last_event) VALUES (1, 0);

-- How far the orders of each sale have been numbered. Within a sale positions
-- grow in commit order, for the sale's row is locked while orders are inserted.
CREATE TABLE event_marks (
    sale_id  TEXT    NOT NULL PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The events first_event to last_event are that the orders of a sale at the
-- positions after after_position, up to upto_position, were stored.
CREATE TABLE order_events (
    last_event     INTEGER NOT NULL PRIMARY KEY,
    first_event    INTEGER NOT NULL CHECK (first_event BETWEEN 1 AND last_event),
    sale_id        TEXT    NOT NULL,
    after_position INTEGER NOT NULL,
    upto_position  INTEGER NOT NULL CHECK (upto_position > after_position)
) STRICT;

-- The number of a change; NULL until it has one.
ALTER TABLE order_changes ADD COLUMN event INTEGER;
CREATE INDEX order_changes_event ON order_changes (event, position);

-- Written by the transaction that changes a sale.
CREATE TABLE sale_events (
    position   INTEGER NOT NULL PRIMARY KEY,
    sale_id    TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    sale       TEXT    NOT NULL, -- the row as it was then, as JSON
    event      INTEGER
) STRICT;
CREATE INDEX sale_events_event ON sale_events (event, position);
