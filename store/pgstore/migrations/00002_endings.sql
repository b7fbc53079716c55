-- What happens to orders after they were stored, and the way of their units
-- back to the ledger.

-- +goose Up

-- Append-only. An order leaves each status at most once, as no step leads
-- back: so it ends at most once (I6). A refused payment leaves the status as it
-- is; it is kept once, however often it is tried.
-- There is no foreign key: an order is never deleted, and its row is locked by
-- the transaction that writes here.
CREATE TABLE order_changes (
    position    bigint GENERATED ALWAYS AS IDENTITY, -- grows with the changes of an order
    order_id    text COLLATE "C" NOT NULL,
    changed_at  timestamptz(3)   NOT NULL, -- the store's clock
    from_status text COLLATE "C" NOT NULL,
    to_status   text COLLATE "C" NOT NULL,
    action      text COLLATE "C" NOT NULL,
    changed_by  text             NOT NULL,
    reason      text             NOT NULL,
    payment_id  text COLLATE "C" NOT NULL, -- the payment that was recorded
    refused     text COLLATE "C" NOT NULL, -- the one that was not, for the order has another

    PRIMARY KEY (order_id, from_status, refused),
    -- The steps of a stored order. Units return with those that leave pending
    -- and paid for another than paid: one of them at most on each way (I6).
    CONSTRAINT order_changes_step CHECK (refused <> '' OR (from_status, to_status) IN (
        ('pending', 'paid'), ('pending', 'cancelled'), ('pending', 'expired'), ('pending', 'rejected'),
        ('paid', 'refunded'),
        ('cancelled', 'refund_due'), ('expired', 'refund_due'), ('rejected', 'refund_due'), ('refund_due', 'refunded'))),
    CONSTRAINT order_changes_refused CHECK (refused = '' OR
        from_status = to_status AND to_status IN ('paid', 'refund_due', 'refunded') AND payment_id = '')
);

-- The outbox: units on their way back. A row is written by the transaction that
-- ends its order, and deleted when the ledger has taken it.
CREATE TABLE releases (
    order_id   text COLLATE "C" PRIMARY KEY, -- one order, one release (I6)
    position   bigint GENERATED ALWAYS AS IDENTITY,
    sale_id    text COLLATE "C" NOT NULL,
    buyer_id   text COLLATE "C" NOT NULL,
    claim_key  text COLLATE "C" NOT NULL,
    quantity   bigint           NOT NULL CHECK (quantity >= 1),
    epoch      bigint           NOT NULL CHECK (epoch >= 0), -- of the sale when the order ended
    created_at timestamptz(3)   NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000); -- rows come and go

CREATE INDEX releases_of_sale ON releases (sale_id, position);
