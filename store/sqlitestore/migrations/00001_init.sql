-- Times are milliseconds since 1970, UTC. An absent limit is NULL.
-- I1 to I8 are the invariants of docs/invariants.md.

-- +goose Up

-- Sales ------------------------------------------------------------------------------

CREATE TABLE sales (
    id                  TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    sku                 TEXT    NOT NULL,
    title               TEXT    NOT NULL,
    price_amount        INTEGER NOT NULL CHECK (price_amount >= 0), -- minor units
    price_currency      TEXT    NOT NULL CHECK (length(price_currency) = 3),
    list_price_amount   INTEGER CHECK (list_price_amount >= 0),
    list_price_currency TEXT    CHECK (list_price_currency = price_currency),
    free                INTEGER NOT NULL CHECK (free IN (0, 1)), -- its orders are paid when they are stored
    payment_window_ms   INTEGER NOT NULL CHECK (payment_window_ms > 0),
    payment_grace_ms    INTEGER NOT NULL CHECK (payment_grace_ms >= 0),
    rules               TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(rules)), -- asked of a buyer before the ledger
    showcase            TEXT    NOT NULL DEFAULT '{}', -- how buyers see it, as JSON

    -- the terms in force; sale_terms has every version
    terms_version       INTEGER NOT NULL CHECK (terms_version >= 1),
    total               INTEGER CHECK (total >= 0),
    max_per_buyer       INTEGER CHECK (max_per_buyer >= 1),
    max_orders          INTEGER CHECK (max_orders >= 1),
    max_unpaid          INTEGER CHECK (max_unpaid >= 1), -- orders of a buyer that ended unpaid
    opens_at            INTEGER NOT NULL,
    closes_at           INTEGER CHECK (closes_at > opens_at),
    paused              INTEGER NOT NULL CHECK (paused IN (0, 1)),

    -- the ledger that decides about the sale
    ledger              TEXT    NOT NULL DEFAULT '',
    epoch               INTEGER NOT NULL CHECK (epoch >= 0),
    loaded_epoch        INTEGER NOT NULL CHECK (loaded_epoch BETWEEN 0 AND epoch),
    fence               TEXT    NOT NULL,
    taken               INTEGER NOT NULL CHECK (taken >= 0), -- units of stored live orders
    cap                 INTEGER, -- total, or more while a lowered total has not reached the ledger

    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    archived_at         INTEGER,
    erased_at           INTEGER, -- when its buyers were erased
    purged_at           INTEGER, -- when the last of its orders was deleted
    remains             TEXT    CHECK (json_valid(remains)), -- of its orders, once the first one is deleted

    CHECK ((list_price_amount IS NULL) = (list_price_currency IS NULL)),
    CHECK (free = 0 OR price_amount = 0),
    CONSTRAINT cap_covers_total CHECK ((cap IS NULL) = (total IS NULL) AND (cap IS NULL OR cap >= total)),
    CONSTRAINT no_oversell CHECK (cap IS NULL OR taken <= cap) -- I1, whatever the ledger says
) STRICT;

-- Every server reads the sales that are not archived all the time. The few that are to
-- be erased or purged are found without reading the others.
CREATE INDEX sales_live ON sales (id) WHERE archived_at IS NULL;
CREATE INDEX sales_to_erase ON sales (id) WHERE erased_at IS NULL AND archived_at IS NOT NULL;
CREATE INDEX sales_to_purge ON sales (id) WHERE purged_at IS NULL AND archived_at IS NOT NULL;

-- Append-only: an accepted claim is judged by the version it was decided under (I8).
CREATE TABLE sale_terms (
    sale_id       TEXT    NOT NULL REFERENCES sales (id),
    version       INTEGER NOT NULL CHECK (version >= 1),
    total         INTEGER CHECK (total >= 0),
    max_per_buyer INTEGER CHECK (max_per_buyer >= 1),
    max_orders    INTEGER CHECK (max_orders >= 1),
    max_unpaid    INTEGER CHECK (max_unpaid >= 1),
    opens_at      INTEGER NOT NULL,
    closes_at     INTEGER CHECK (closes_at > opens_at),
    paused        INTEGER NOT NULL CHECK (paused IN (0, 1)),
    changed_at    INTEGER NOT NULL,
    PRIMARY KEY (sale_id, version)
) STRICT, WITHOUT ROWID;

-- Changes of totals, each once.
CREATE TABLE restocks (
    sale_id       TEXT    NOT NULL REFERENCES sales (id),
    restock_id    TEXT    NOT NULL,
    delta         INTEGER NOT NULL CHECK (delta <> 0),
    terms_version INTEGER NOT NULL CHECK (terms_version >= 2), -- the one that it made
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (sale_id, restock_id)
) STRICT, WITHOUT ROWID;

-- Pictures that a sale's showcase names or is about to name, as JPEG, once for each size: pixels
-- of the longer side.
CREATE TABLE pictures (
    sale_id TEXT    NOT NULL REFERENCES sales (id),
    id      TEXT    NOT NULL,
    size    INTEGER NOT NULL CHECK (size > 0),
    jpeg    BLOB    NOT NULL,
    PRIMARY KEY (sale_id, id, size)
) STRICT;

-- Lists of buyers who may buy at a sale, or may not. A list is uploaded under a
-- generation of its own; the one that sale_lists names is in force.
CREATE TABLE sale_lists (
    sale_id         TEXT    NOT NULL REFERENCES sales (id),
    kind            TEXT    NOT NULL CHECK (kind IN ('allow', 'deny')),
    generation      INTEGER NOT NULL DEFAULT 0 CHECK (generation BETWEEN 0 AND last_generation), -- 0: none
    last_generation INTEGER NOT NULL DEFAULT 0, -- the last one that an upload took
    size            INTEGER NOT NULL DEFAULT 0 CHECK (size >= 0),
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (sale_id, kind)
) STRICT;

CREATE TABLE sale_buyers (
    sale_id    TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    buyer_id   TEXT    NOT NULL,
    PRIMARY KEY (sale_id, kind, generation, buyer_id)
) STRICT, WITHOUT ROWID;

-- Orders -----------------------------------------------------------------------------

-- The newest order is never deleted, so position (the rowid) only grows. sale_id has no
-- foreign key: every transaction that inserts orders updates the row of their sale, which
-- is never deleted, so the check per row would cost and never fail.
CREATE TABLE orders (
    position     INTEGER NOT NULL PRIMARY KEY,
    order_id     TEXT    NOT NULL UNIQUE,
    sale_id      TEXT    NOT NULL,
    buyer_id     TEXT    NOT NULL,
    claim_key    TEXT    NOT NULL,
    quantity     INTEGER NOT NULL CHECK (quantity >= 1),
    meta         TEXT    NOT NULL,
    counters     TEXT    NOT NULL DEFAULT '', -- NAME=MAX, separated by spaces
    price_amount INTEGER NOT NULL CHECK (price_amount >= 0),
    currency     TEXT    NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN
        ('pending', 'paid', 'rejected', 'cancelled', 'expired', 'refunded', 'refund_due')),
    reason       TEXT    NOT NULL,
    epoch        INTEGER NOT NULL CHECK (epoch >= 1),
    bucket       INTEGER NOT NULL DEFAULT 0,
    seq          INTEGER NOT NULL CHECK (seq >= 1),
    terms        INTEGER NOT NULL CHECK (terms >= 1),
    node         TEXT    NOT NULL,
    accepted_at  INTEGER NOT NULL, -- the ledger's clock
    stored_at    INTEGER NOT NULL, -- the store's clock
    expires_at   INTEGER NOT NULL CHECK (expires_at > stored_at), -- what the buyer is told
    keep_until   INTEGER NOT NULL CHECK (keep_until >= expires_at), -- a payment before it is in time
    updated_at   INTEGER NOT NULL CHECK (updated_at >= stored_at),
    payment_id   TEXT    NOT NULL DEFAULT '',
    unpaid       INTEGER NOT NULL DEFAULT 0 CHECK (unpaid IN (0, 1)), -- it expired, or its buyer cancelled it

    -- One claim, one order, for ever (I4, I5). The buyer comes first, so that
    -- this also lists the orders of a buyer.
    UNIQUE (buyer_id, sale_id, claim_key),
    -- One place, one order (I5): a place given twice is a ledger that lost data.
    UNIQUE (sale_id, epoch, bucket, seq)
) STRICT;

CREATE INDEX orders_of_sale ON orders (sale_id); -- and by position: an index ends with the rowid
CREATE INDEX orders_to_expire ON orders (keep_until) WHERE status = 'pending';

-- What happens to orders after they were stored. Append-only. An order leaves each
-- status at most once, as no step leads back: so it ends at most once (I6). A refused
-- payment leaves the status as it is; it is kept once, however often it is tried.
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
    refused     TEXT    NOT NULL, -- the one that was not: another amount, or a second payment
    event       INTEGER, -- its number in the feed, once it has one

    UNIQUE (order_id, from_status, refused),
    -- The steps of a stored order. Units return with those that leave pending
    -- and paid for another than paid: one of them at most on each way (I6).
    CONSTRAINT order_changes_step CHECK (refused <> '' OR from_status || ' ' || to_status IN (
        'pending paid', 'pending cancelled', 'pending expired', 'pending rejected', 'paid refunded', 'paid refund_due',
        'cancelled refund_due', 'expired refund_due', 'rejected refund_due', 'refund_due refunded')),
    CONSTRAINT order_changes_refused CHECK (refused = '' OR from_status = to_status AND payment_id = '')
) STRICT;

CREATE INDEX order_changes_event ON order_changes (event, position);

-- Which order has a payment: one at most, over all servers.
CREATE TABLE payments (
    payment_id TEXT NOT NULL PRIMARY KEY,
    order_id   TEXT NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

-- The outbox: units on their way back to the ledger. A row is written by the transaction
-- that ends its order, and deleted when the ledger has taken it.
CREATE TABLE releases (
    position   INTEGER NOT NULL PRIMARY KEY,
    order_id   TEXT    NOT NULL UNIQUE, -- one order, one release (I6)
    sale_id    TEXT    NOT NULL,
    buyer_id   TEXT    NOT NULL,
    claim_key  TEXT    NOT NULL,
    quantity   INTEGER NOT NULL CHECK (quantity >= 1),
    unpaid     INTEGER NOT NULL DEFAULT 0 CHECK (unpaid IN (0, 1)),
    epoch      INTEGER NOT NULL CHECK (epoch >= 0), -- of the sale when the order ended
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX releases_of_sale ON releases (sale_id, position);

-- Batches of the journal that could not be stored. No reference to sales: they are kept,
-- whatever is in them.
CREATE TABLE dead_letters (
    id          INTEGER NOT NULL PRIMARY KEY,
    sale_id     TEXT    NOT NULL,
    epoch       INTEGER NOT NULL,
    entry_id    TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    claims      BLOB    NOT NULL, -- as in the journal, perhaps damaged
    first_seq   INTEGER NOT NULL,
    terms       INTEGER NOT NULL,
    node        TEXT    NOT NULL,
    accepted_at INTEGER,
    created_at  INTEGER NOT NULL,
    resolved_at INTEGER,
    resolution  TEXT    NOT NULL DEFAULT '',
    UNIQUE (sale_id, epoch, entry_id)
) STRICT;

CREATE INDEX dead_letters_open ON dead_letters (sale_id) WHERE resolved_at IS NULL;

-- Events -----------------------------------------------------------------------------

-- Events are what was committed, numbered. Nothing is copied but the rows of sales, which
-- change: an order's events are its row and its changes.

-- One row. Whoever numbers holds it, so numbers are dense and in one order.
CREATE TABLE event_feed (
    id          INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    first_event INTEGER NOT NULL DEFAULT 1 CHECK (first_event >= 1), -- the first that is not deleted
    last_event  INTEGER NOT NULL CHECK (last_event >= 0)
) STRICT;

INSERT INTO event_feed (id, last_event) VALUES (1, 0);

-- Written by the transaction that stores orders: those of a sale at the positions after
-- after_position, up to upto_position. Within a sale positions grow in commit order, for the
-- sale's row is locked while orders are inserted.
CREATE TABLE order_events (
    position       INTEGER NOT NULL PRIMARY KEY,
    sale_id        TEXT    NOT NULL,
    after_position INTEGER NOT NULL,
    upto_position  INTEGER NOT NULL CHECK (upto_position > after_position),
    orders         INTEGER NOT NULL CHECK (orders >= 1),
    stored_at      INTEGER NOT NULL,
    event          INTEGER -- the last of them
) STRICT;

CREATE INDEX order_events_event ON order_events (event, position);
CREATE INDEX order_events_of_sale ON order_events (sale_id, upto_position);

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

-- Webhooks ---------------------------------------------------------------------------

CREATE TABLE webhooks (
    position     INTEGER NOT NULL PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    url          TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    secret       TEXT    NOT NULL,
    types        TEXT    NOT NULL, -- separated by blanks; empty: all
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    disabled_at  INTEGER,
    disabled_why TEXT    NOT NULL,

    last_event   INTEGER NOT NULL CHECK (last_event >= 0), -- delivered up to here, or kept below
    delivered    INTEGER NOT NULL,
    failures     INTEGER NOT NULL CHECK (failures >= 0),
    retry_at     INTEGER,
    last_success INTEGER,
    last_failure INTEGER,
    last_error   TEXT    NOT NULL
) STRICT;

-- Events that have not reached their webhook.
CREATE TABLE webhook_deliveries (
    webhook_id  TEXT    NOT NULL REFERENCES webhooks (id),
    event       INTEGER NOT NULL,
    subject     TEXT    NOT NULL, -- an order, or a sale
    state       TEXT    NOT NULL CHECK (state IN ('pending', 'failed')),
    attempts    INTEGER NOT NULL CHECK (attempts >= 0),
    next_at     INTEGER NOT NULL,
    last_status INTEGER NOT NULL,
    last_error  TEXT    NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (webhook_id, event)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, state, next_at);
CREATE INDEX webhook_deliveries_subject ON webhook_deliveries (webhook_id, subject, state, event);

-- Servers and admins -----------------------------------------------------------------

-- What one server at a time does. A row stays when nobody holds it.
CREATE TABLE leases (
    name       TEXT    NOT NULL PRIMARY KEY,
    holder     TEXT    NOT NULL,
    fence      INTEGER NOT NULL DEFAULT 0, -- higher than that of each holder before (lock.Backend)
    ttl        INTEGER NOT NULL DEFAULT 0, -- milliseconds it was taken for
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When each server was last heard of, and the ledger that it has.
CREATE TABLE nodes (
    node    TEXT    NOT NULL PRIMARY KEY,
    ledger  TEXT    NOT NULL DEFAULT '',
    about   TEXT    NOT NULL DEFAULT '{}', -- what the server says of itself, as JSON
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Servers that have stored what they remember of a sale that is rebuilt.
CREATE TABLE gathered (
    sale_id     TEXT    NOT NULL,
    epoch       INTEGER NOT NULL,
    node        TEXT    NOT NULL,
    gathered_at INTEGER NOT NULL,
    PRIMARY KEY (sale_id, epoch, node)
) STRICT, WITHOUT ROWID;

-- What servers have counted of the claims on sales, second by second, for those who look on. Deleted when the sale is archived or deleted.
CREATE TABLE stretches (
    sale_id  TEXT    NOT NULL,
    begun_at INTEGER NOT NULL, -- by the server's clock
    node     TEXT    NOT NULL,
    ended    INTEGER NOT NULL CHECK (ended IN (0, 1)),
    figures  BLOB    NOT NULL,
    PRIMARY KEY (sale_id, begun_at, node)
) STRICT, WITHOUT ROWID;

-- What admins did, or tried to do. Rows are added and never changed; what nobody
-- needs any more may be deleted by hand, the oldest first.
CREATE TABLE admin_actions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    acted_at   INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    route      TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    sale_id    TEXT    NOT NULL,
    order_id   TEXT    NOT NULL,
    status     INTEGER NOT NULL,
    code       TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    node       TEXT    NOT NULL
) STRICT;
