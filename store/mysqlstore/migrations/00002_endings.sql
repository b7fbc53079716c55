-- What happens to orders after they were stored, and the way of their units
-- back to the ledger.

-- +goose Up

-- Append-only. An order leaves each status at most once, as no step leads
-- back: so it ends at most once (I6). A refused payment leaves the status as it
-- is; it is kept once, however often it is tried.
-- There is no foreign key: an order is never deleted, and its row is locked by
-- the transaction that writes here.
CREATE TABLE IF NOT EXISTS order_changes (
    position    BIGINT         NOT NULL AUTO_INCREMENT, -- grows with the changes of an order
    order_id    VARBINARY(81)  NOT NULL,
    changed_at  DATETIME(3)    NOT NULL, -- the store's clock
    from_status VARBINARY(16)  NOT NULL,
    to_status   VARBINARY(16)  NOT NULL,
    action      VARBINARY(16)  NOT NULL,
    changed_by  VARCHAR(256)   NOT NULL,
    reason      VARCHAR(1024)  NOT NULL,
    payment_id  VARBINARY(128) NOT NULL, -- the payment that was recorded
    refused     VARBINARY(128) NOT NULL, -- the one that was not, for the order has another

    PRIMARY KEY (order_id, from_status, refused),
    CONSTRAINT order_changes_position UNIQUE (position),
    -- The steps of a stored order. Units return with those that leave pending
    -- and paid for another than paid: one of them at most on each way (I6).
    CONSTRAINT order_changes_step CHECK (refused <> '' OR concat(from_status, ' ', to_status) IN (
        'pending paid', 'pending cancelled', 'pending expired', 'pending rejected', 'paid refunded',
        'cancelled refund_due', 'expired refund_due', 'rejected refund_due', 'refund_due refunded')),
    CONSTRAINT order_changes_refused CHECK (refused = '' OR
        from_status = to_status AND to_status IN ('paid', 'refund_due', 'refunded') AND payment_id = '')
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The outbox: units on their way back. A row is written by the transaction that
-- ends its order, and deleted when the ledger has taken it.
CREATE TABLE IF NOT EXISTS releases (
    position   BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_id   VARBINARY(81)  NOT NULL,
    sale_id    VARBINARY(48)  NOT NULL,
    buyer_id   VARBINARY(128) NOT NULL,
    claim_key  VARBINARY(64)  NOT NULL,
    quantity   BIGINT         NOT NULL CHECK (quantity >= 1),
    epoch      BIGINT         NOT NULL CHECK (epoch >= 0), -- of the sale when the order ended
    created_at DATETIME(3)    NOT NULL,

    CONSTRAINT releases_order_id UNIQUE (order_id), -- one order, one release (I6)
    INDEX releases_of_sale (sale_id, position)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
