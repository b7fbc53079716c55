-- Times are UTC with milliseconds. An absent limit is NULL. Ids are VARBINARY:
-- they are compared byte by byte, and blanks at the end count, which no
-- collation that both MySQL and MariaDB have does. I1 to I8 are the invariants
-- of docs/invariants.md.
--
-- Each statement is a transaction of its own, whatever one does. So that a
-- migration which was cut off can be run again, each says IF NOT EXISTS.

-- +goose Up

-- Sales ------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS sales (
    id                  VARBINARY(48) NOT NULL PRIMARY KEY CHECK (id <> ''),
    sku                 VARCHAR(256)  NOT NULL,
    title               VARCHAR(256)  NOT NULL,
    price_amount        BIGINT        NOT NULL CHECK (price_amount >= 0), -- minor units
    price_currency      VARBINARY(3)  NOT NULL CHECK (length(price_currency) = 3),
    list_price_amount   BIGINT        CHECK (list_price_amount >= 0),
    list_price_currency VARBINARY(3),
    free                TINYINT(1)    NOT NULL CHECK (free IN (0, 1)), -- its orders are paid when they are stored
    payment_window_ms   BIGINT        NOT NULL CHECK (payment_window_ms > 0),
    payment_grace_ms    BIGINT        NOT NULL CHECK (payment_grace_ms >= 0),
    rules               JSON          NOT NULL DEFAULT ('{}'), -- asked of a buyer before the ledger
    showcase            MEDIUMTEXT    NOT NULL DEFAULT ('{}'), -- how buyers see it, as JSON

    -- the terms in force; sale_terms has every version
    terms_version       BIGINT        NOT NULL CHECK (terms_version >= 1),
    total               BIGINT        CHECK (total >= 0),
    max_per_buyer       BIGINT        CHECK (max_per_buyer >= 1),
    max_orders          BIGINT        CHECK (max_orders >= 1),
    max_unpaid          BIGINT        CHECK (max_unpaid >= 1), -- orders of a buyer that ended unpaid
    opens_at            DATETIME(3)   NOT NULL,
    closes_at           DATETIME(3),
    paused              TINYINT(1)    NOT NULL CHECK (paused IN (0, 1)),

    -- the ledger that decides about the sale
    ledger              VARCHAR(255)  NOT NULL DEFAULT '',
    epoch               BIGINT        NOT NULL CHECK (epoch >= 0),
    loaded_epoch        BIGINT        NOT NULL,
    fence               TEXT          NOT NULL,
    taken               BIGINT        NOT NULL CHECK (taken >= 0), -- units of stored live orders
    cap                 BIGINT, -- total, or more while a lowered total has not reached the ledger

    created_at          DATETIME(3)   NOT NULL,
    updated_at          DATETIME(3)   NOT NULL,
    archived_at         DATETIME(3),
    erased_at           DATETIME(3), -- when its buyers were erased
    purged_at           DATETIME(3), -- when the last of its orders was deleted
    remains             MEDIUMTEXT, -- of its orders, as JSON, once the first one is deleted

    CONSTRAINT sales_list_price CHECK (list_price_currency = price_currency
        AND (list_price_amount IS NULL) = (list_price_currency IS NULL)),
    CONSTRAINT sales_free CHECK (free = 0 OR price_amount = 0),
    CONSTRAINT sales_window CHECK (closes_at > opens_at),
    CONSTRAINT sales_epochs CHECK (loaded_epoch BETWEEN 0 AND epoch),
    CONSTRAINT sales_cap CHECK ((cap IS NULL) = (total IS NULL) AND (cap IS NULL OR cap >= total)),
    CONSTRAINT sales_no_oversell CHECK (cap IS NULL OR taken <= cap), -- I1, whatever the ledger says

    -- Every server reads the sales that are not archived all the time. The few that are to
    -- be erased or purged are found without reading the others.
    INDEX sales_live (archived_at, id),
    INDEX sales_to_erase (erased_at, id, archived_at),
    INDEX sales_to_purge (purged_at, id, archived_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Append-only: an accepted claim is judged by the version it was decided under (I8).
CREATE TABLE IF NOT EXISTS sale_terms (
    sale_id       VARBINARY(48) NOT NULL,
    version       BIGINT        NOT NULL CHECK (version >= 1),
    total         BIGINT        CHECK (total >= 0),
    max_per_buyer BIGINT        CHECK (max_per_buyer >= 1),
    max_orders    BIGINT        CHECK (max_orders >= 1),
    max_unpaid    BIGINT        CHECK (max_unpaid >= 1),
    opens_at      DATETIME(3)   NOT NULL,
    closes_at     DATETIME(3),
    paused        TINYINT(1)    NOT NULL CHECK (paused IN (0, 1)),
    changed_at    DATETIME(3)   NOT NULL,

    PRIMARY KEY (sale_id, version),
    CONSTRAINT sale_terms_sale FOREIGN KEY (sale_id) REFERENCES sales (id),
    CONSTRAINT sale_terms_window CHECK (closes_at > opens_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Changes of totals, each once. terms_version is the one that it made. There is
-- no foreign key: the transaction that writes here locks the row of the sale.
CREATE TABLE IF NOT EXISTS restocks (
    sale_id       VARBINARY(48)  NOT NULL,
    restock_id    VARBINARY(255) NOT NULL,
    delta         BIGINT         NOT NULL CHECK (delta <> 0),
    terms_version BIGINT         NOT NULL CHECK (terms_version >= 2),
    created_at    DATETIME(3)    NOT NULL,

    PRIMARY KEY (sale_id, restock_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Pictures that a sale's showcase names or is about to name, as JPEG, once for each size: pixels
-- of the longer side.
CREATE TABLE IF NOT EXISTS pictures (
    sale_id VARBINARY(48) NOT NULL,
    id      VARBINARY(32) NOT NULL,
    size    BIGINT        NOT NULL CHECK (size > 0),
    jpeg    MEDIUMBLOB    NOT NULL,

    PRIMARY KEY (sale_id, id, size),
    CONSTRAINT pictures_sale FOREIGN KEY (sale_id) REFERENCES sales (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Lists of buyers who may buy at a sale, or may not. A list is uploaded under a
-- generation of its own; the one that sale_lists names is in force.
CREATE TABLE IF NOT EXISTS sale_lists (
    sale_id         VARBINARY(48) NOT NULL,
    kind            VARBINARY(8)  NOT NULL CHECK (kind IN ('allow', 'deny')),
    generation      BIGINT        NOT NULL DEFAULT 0, -- 0: none is in force
    last_generation BIGINT        NOT NULL DEFAULT 0, -- the last one that an upload took
    size            BIGINT        NOT NULL DEFAULT 0 CHECK (size >= 0),
    updated_at      DATETIME(3)   NOT NULL,

    PRIMARY KEY (sale_id, kind),
    CONSTRAINT sale_lists_sale FOREIGN KEY (sale_id) REFERENCES sales (id),
    CONSTRAINT sale_lists_generation CHECK (generation BETWEEN 0 AND last_generation)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS sale_buyers (
    sale_id    VARBINARY(48)  NOT NULL,
    kind       VARBINARY(8)   NOT NULL,
    generation BIGINT         NOT NULL,
    buyer_id   VARBINARY(128) NOT NULL,

    PRIMARY KEY (sale_id, kind, generation, buyer_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Orders -----------------------------------------------------------------------------

-- sale_id has no foreign key: every transaction that inserts orders updates the
-- row of their sale, which is never deleted, so the check per row would cost
-- and never fail.
CREATE TABLE IF NOT EXISTS orders (
    position     BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_id     VARBINARY(81)  NOT NULL,
    sale_id      VARBINARY(48)  NOT NULL,
    buyer_id     VARBINARY(128) NOT NULL,
    claim_key    VARBINARY(64)  NOT NULL,
    quantity     BIGINT         NOT NULL CHECK (quantity >= 1),
    meta         VARCHAR(512)   NOT NULL,
    counters     VARCHAR(255)   NOT NULL DEFAULT '', -- NAME=MAX, separated by spaces
    price_amount BIGINT         NOT NULL CHECK (price_amount >= 0),
    currency     VARBINARY(3)   NOT NULL,
    status       VARBINARY(16)  NOT NULL CHECK (status IN
        ('pending', 'paid', 'rejected', 'cancelled', 'expired', 'refunded', 'refund_due')),
    reason       TEXT           NOT NULL,
    epoch        BIGINT         NOT NULL CHECK (epoch >= 1),
    bucket       BIGINT         NOT NULL DEFAULT 0,
    seq          BIGINT         NOT NULL CHECK (seq >= 1),
    terms        BIGINT         NOT NULL CHECK (terms >= 1),
    node         TEXT           NOT NULL,
    accepted_at  DATETIME(3)    NOT NULL, -- the ledger's clock
    stored_at    DATETIME(3)    NOT NULL, -- the store's clock
    expires_at   DATETIME(3)    NOT NULL, -- what the buyer is told
    keep_until   DATETIME(3)    NOT NULL, -- a payment before it is in time
    updated_at   DATETIME(3)    NOT NULL,
    payment_id   VARBINARY(128) NOT NULL DEFAULT '',
    unpaid       BOOLEAN        NOT NULL DEFAULT FALSE, -- it expired, or its buyer cancelled it

    CONSTRAINT orders_order_id UNIQUE (order_id),
    -- One claim, one order, for ever (I4, I5). The buyer comes first, so that
    -- this also lists the orders of a buyer.
    CONSTRAINT orders_claim UNIQUE (buyer_id, sale_id, claim_key),
    -- One place, one order (I5): a place given twice is a ledger that lost data.
    CONSTRAINT orders_place UNIQUE (sale_id, epoch, bucket, seq),
    CONSTRAINT orders_times CHECK (expires_at > stored_at AND keep_until >= expires_at AND updated_at >= stored_at),

    INDEX orders_of_sale (sale_id, position),
    INDEX orders_to_expire (status, keep_until)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What happens to orders after they were stored. Append-only. An order leaves each
-- status at most once, as no step leads back: so it ends at most once (I6). A refused
-- payment leaves the status as it is; it is kept once, however often it is tried.
-- There is no foreign key: the transaction that writes here locks the order's row.
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
    refused     VARBINARY(128) NOT NULL, -- the one that was not: another amount, or a second payment
    event       BIGINT, -- its number in the feed, once it has one

    PRIMARY KEY (order_id, from_status, refused),
    CONSTRAINT order_changes_position UNIQUE (position),
    -- The steps of a stored order. Units return with those that leave pending
    -- and paid for another than paid: one of them at most on each way (I6).
    CONSTRAINT order_changes_step CHECK (refused <> '' OR concat(from_status, ' ', to_status) IN (
        'pending paid', 'pending cancelled', 'pending expired', 'pending rejected', 'paid refunded', 'paid refund_due',
        'cancelled refund_due', 'expired refund_due', 'rejected refund_due', 'refund_due refunded')),
    CONSTRAINT order_changes_refused CHECK (refused = '' OR from_status = to_status AND payment_id = ''),

    INDEX order_changes_event (event, position)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Which order has a payment: one at most, over all servers.
CREATE TABLE IF NOT EXISTS payments (
    payment_id VARBINARY(128) NOT NULL PRIMARY KEY,
    order_id   VARBINARY(81)  NOT NULL,

    CONSTRAINT payments_order_id UNIQUE (order_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The outbox: units on their way back to the ledger. A row is written by the transaction
-- that ends its order, and deleted when the ledger has taken it.
CREATE TABLE IF NOT EXISTS releases (
    position   BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_id   VARBINARY(81)  NOT NULL,
    sale_id    VARBINARY(48)  NOT NULL,
    buyer_id   VARBINARY(128) NOT NULL,
    claim_key  VARBINARY(64)  NOT NULL,
    quantity   BIGINT         NOT NULL CHECK (quantity >= 1),
    unpaid     BOOLEAN        NOT NULL DEFAULT FALSE,
    epoch      BIGINT         NOT NULL CHECK (epoch >= 0), -- of the sale when the order ended
    created_at DATETIME(3)    NOT NULL,

    CONSTRAINT releases_order_id UNIQUE (order_id), -- one order, one release (I6)

    INDEX releases_of_sale (sale_id, position)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Batches of the journal that could not be stored. No reference to sales: they are kept,
-- whatever is in them.
CREATE TABLE IF NOT EXISTS dead_letters (
    id          BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sale_id     VARBINARY(255) NOT NULL,
    epoch       BIGINT         NOT NULL,
    entry_id    VARBINARY(255) NOT NULL,
    reason      TEXT           NOT NULL,
    claims      LONGBLOB       NOT NULL, -- as in the journal, perhaps damaged
    first_seq   BIGINT         NOT NULL,
    terms       BIGINT         NOT NULL,
    node        TEXT           NOT NULL,
    accepted_at DATETIME(3),
    created_at  DATETIME(3)    NOT NULL,
    resolved_at DATETIME(3),
    resolution  VARCHAR(1024)  NOT NULL DEFAULT '',

    CONSTRAINT dead_letters_entry UNIQUE (sale_id, epoch, entry_id),

    INDEX dead_letters_open (resolved_at, sale_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Events -----------------------------------------------------------------------------

-- Events are what was committed, numbered. Nothing is copied but the rows of sales, which
-- change: an order's events are its row and its changes.

-- One row. Whoever numbers holds it, so numbers are dense and in one order.
CREATE TABLE IF NOT EXISTS event_feed (
    id          BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    first_event BIGINT NOT NULL DEFAULT 1 CHECK (first_event >= 1), -- the first that is not deleted
    last_event  BIGINT NOT NULL CHECK (last_event >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO event_feed (id, last_event) VALUES (1, 0) ON DUPLICATE KEY UPDATE id = id;

-- Written by the transaction that stores orders: those of a sale at the positions after
-- after_position, up to upto_position. Within a sale positions grow in commit order, for the
-- sale's row is locked while orders are inserted.
CREATE TABLE IF NOT EXISTS order_events (
    position       BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sale_id        VARBINARY(48) NOT NULL,
    after_position BIGINT        NOT NULL,
    upto_position  BIGINT        NOT NULL,
    orders         BIGINT        NOT NULL,
    stored_at      DATETIME(3)   NOT NULL,
    event          BIGINT, -- the last of them

    CONSTRAINT order_events_range CHECK (orders >= 1 AND upto_position > after_position),

    INDEX order_events_event (event, position),
    INDEX order_events_of_sale (sale_id, upto_position)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Written by the transaction that changes a sale.
CREATE TABLE IF NOT EXISTS sale_events (
    position   BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sale_id    VARBINARY(48) NOT NULL,
    type       VARBINARY(32) NOT NULL,
    created_at DATETIME(3)   NOT NULL,
    sale       LONGTEXT      NOT NULL, -- the row as it was then, as JSON
    event      BIGINT,

    INDEX sale_events_event (event, position)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Webhooks ---------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS webhooks (
    position     BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id           VARBINARY(64)   NOT NULL,
    url          VARBINARY(2048) NOT NULL,
    description  VARCHAR(256)    NOT NULL,
    secret       VARBINARY(128)  NOT NULL,
    types        TEXT            NOT NULL, -- separated by blanks, empty for all
    created_at   DATETIME(3)     NOT NULL,
    updated_at   DATETIME(3)     NOT NULL,
    disabled_at  DATETIME(3),
    disabled_why TEXT            NOT NULL,

    last_event   BIGINT          NOT NULL CHECK (last_event >= 0), -- delivered up to here, or kept below
    delivered    BIGINT          NOT NULL,
    failures     BIGINT          NOT NULL CHECK (failures >= 0),
    retry_at     DATETIME(3),
    last_success DATETIME(3),
    last_failure DATETIME(3),
    last_error   TEXT            NOT NULL,

    CONSTRAINT webhooks_id UNIQUE (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Events that have not reached their webhook. There is no foreign key: the transaction
-- that writes here locks the row of the webhook.
CREATE TABLE IF NOT EXISTS webhook_deliveries (
    webhook_id  VARBINARY(64) NOT NULL,
    event       BIGINT        NOT NULL,
    subject     VARBINARY(81) NOT NULL, -- an order, or a sale
    state       VARBINARY(16) NOT NULL CHECK (state IN ('pending', 'failed')),
    attempts    BIGINT        NOT NULL CHECK (attempts >= 0),
    next_at     DATETIME(3)   NOT NULL,
    last_status BIGINT        NOT NULL,
    last_error  TEXT          NOT NULL,
    updated_at  DATETIME(3)   NOT NULL,

    PRIMARY KEY (webhook_id, event),

    INDEX webhook_deliveries_due (webhook_id, state, next_at),
    INDEX webhook_deliveries_subject (webhook_id, subject, state, event)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Servers and admins -----------------------------------------------------------------

-- What one server at a time does. A row stays when nobody holds it.
CREATE TABLE IF NOT EXISTS leases (
    name       VARBINARY(255) NOT NULL PRIMARY KEY,
    holder     VARBINARY(255) NOT NULL,
    fence      BIGINT         NOT NULL DEFAULT 0, -- higher than that of each holder before (lock.Backend)
    ttl        BIGINT         NOT NULL DEFAULT 0, -- milliseconds it was taken for
    expires_at DATETIME(3)    NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- When each server was last heard of, and the ledger that it has.
CREATE TABLE IF NOT EXISTS nodes (
    node    VARBINARY(255) NOT NULL PRIMARY KEY,
    ledger  VARCHAR(255)   NOT NULL DEFAULT '',
    about   TEXT           NOT NULL, -- what the server says of itself, as JSON
    seen_at DATETIME(3)    NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Servers that have stored what they remember of a sale that is rebuilt.
CREATE TABLE IF NOT EXISTS gathered (
    sale_id     VARBINARY(48)  NOT NULL,
    epoch       BIGINT         NOT NULL,
    node        VARBINARY(255) NOT NULL,
    gathered_at DATETIME(3)    NOT NULL,

    PRIMARY KEY (sale_id, epoch, node)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What servers have counted of the claims on sales, second by second, for those who look on. Deleted when the sale is archived or deleted.
CREATE TABLE IF NOT EXISTS stretches (
    sale_id  VARBINARY(48)  NOT NULL,
    begun_at DATETIME(3)    NOT NULL, -- by the server's clock
    node     VARBINARY(255) NOT NULL,
    ended    TINYINT(1)     NOT NULL CHECK (ended IN (0, 1)),
    figures  MEDIUMBLOB     NOT NULL,

    PRIMARY KEY (sale_id, begun_at, node)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What admins did, or tried to do. Rows are added and never changed; what nobody
-- needs any more may be deleted by hand, the oldest first.
CREATE TABLE IF NOT EXISTS admin_actions (
    id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    acted_at   DATETIME(3)  NOT NULL, -- the store's clock
    actor      VARCHAR(255) NOT NULL,
    route      VARCHAR(255) NOT NULL,
    path       VARCHAR(255) NOT NULL,
    sale_id    VARCHAR(255) NOT NULL, -- as it was asked for, which may be no id
    order_id   VARCHAR(255) NOT NULL,
    status     INT          NOT NULL,
    code       VARCHAR(255) NOT NULL,
    request_id VARCHAR(255) NOT NULL,
    address    VARCHAR(255) NOT NULL,
    node       VARCHAR(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
