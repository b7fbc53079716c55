-- Events: what was committed, numbered. Nothing is copied but the rows of sales,
-- which change: an order's events are its row and its changes.

-- +goose Up

-- One row. Whoever numbers holds it, so numbers are dense and in one order.
CREATE TABLE event_feed (
    id         bigint PRIMARY KEY CHECK (id = 1),
    last_event bigint NOT NULL CHECK (last_event >= 0)
) WITH (fillfactor = 50);

INSERT INTO event_feed (id, last_event) VALUES (1, 0);

-- How far the orders of each sale have been numbered. Within a sale positions
-- grow in commit order, for the sale's row is locked while orders are inserted.
CREATE TABLE event_marks (
    sale_id  text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
) WITH (fillfactor = 50);

-- The events first_event to last_event are that the orders of a sale at the
-- positions after after_position, up to upto_position, were stored.
CREATE TABLE order_events (
    last_event     bigint           PRIMARY KEY,
    first_event    bigint           NOT NULL CHECK (first_event BETWEEN 1 AND last_event),
    sale_id        text COLLATE "C" NOT NULL,
    after_position bigint           NOT NULL,
    upto_position  bigint           NOT NULL CHECK (upto_position > after_position)
);

-- The number of a change; NULL until it has one.
ALTER TABLE order_changes ADD COLUMN event bigint;
CREATE INDEX order_changes_event ON order_changes (event, position);

-- Written by the transaction that changes a sale.
CREATE TABLE sale_events (
    position   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sale_id    text COLLATE "C" NOT NULL,
    type       text COLLATE "C" NOT NULL,
    created_at timestamptz(3)   NOT NULL,
    sale       text             NOT NULL, -- the row as it was then, as JSON
    event      bigint
);
CREATE INDEX sale_events_event ON sale_events (event, position);
