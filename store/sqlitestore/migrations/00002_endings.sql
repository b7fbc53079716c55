-- What happens to orders after they were stored, and the way of their units
-- back to the ledger.

-- +goose Up

-- Append-only. An order leaves each status at most once, as no step leads
-- back: so it ends at most once (I6). A refused payment leaves the status as it
-- is; it is kept once, however often it is tried.
CREATE TABLE order_changes (
    position    INTEGER NOT NULL PRIMARY KEY, -- grows with the changes of an order
    order_id    TEXT    NOT NULL,
    changed_at  INTEGER NOT NULL, -- the store's clock
    from_status TEXT    NOT NULL,
    to_status   TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    changed_by  TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    payment_id  TEXT    NOT NULL, -- the payment that was recorded
    refused     TEXT    NOT NULL, -- the one that was not, for the order has another

    UNIQUE (order_id, from_status, refused),
    -- The steps of a stored order. Units return with those that leave pending
    -- and paid for another than paid: one of them at most on each way (I6).
    CONSTRAINT order_changes_step CHECK (refused <> '' OR from_status || ' ' || to_status IN (
        'pending paid', 'pending cancelled', 'pending expired', 'pending rejected', 'paid refunded',
        'cancelled refund_due', 'expired refund_due', 'rejected refund_due', 'refund_due refunded')),
    CONSTRAINT order_changes_refused CHECK (refused = '' OR
        from_status = to_status AND to_status IN ('paid', 'refund_due', 'refunded') AND payment_id = '')
) STRICT;

-- The outbox: units on their way back. A row is written by the transaction that
-- ends its order, and deleted when the ledger has taken it.
CREATE TABLE releases (
    position   INTEGER NOT NULL PRIMARY KEY,
    order_id   TEXT    NOT NULL UNIQUE, -- one order, one release (I6)
    sale_id    TEXT    NOT NULL,
    buyer_id   TEXT    NOT NULL,
    claim_key  TEXT    NOT NULL,
    quantity   INTEGER NOT NULL CHECK (quantity >= 1),
    epoch      INTEGER NOT NULL CHECK (epoch >= 0), -- of the sale when the order ended
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX releases_of_sale ON releases (sale_id, position);
