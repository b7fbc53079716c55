-- Times are milliseconds since 1970, UTC. An absent limit is NULL.
-- I1 to I8 are the invariants of docs/invariants.md.

-- +goose Up
CREATE TABLE sales (
    id                  TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    sku                 TEXT    NOT NULL,
    title               TEXT    NOT NULL,
    price_amount        INTEGER NOT NULL CHECK (price_amount >= 0), -- minor units
    price_currency      TEXT    NOT NULL CHECK (length(price_currency) = 3),
    list_price_amount   INTEGER CHECK (list_price_amount >= 0),
    list_price_currency TEXT    CHECK (list_price_currency = price_currency),
    payment_window_ms   INTEGER NOT NULL CHECK (payment_window_ms > 0),
    payment_grace_ms    INTEGER NOT NULL CHECK (payment_grace_ms >= 0),

    -- the terms in force; sale_terms has every version
    terms_version       INTEGER NOT NULL CHECK (terms_version >= 1),
    total               INTEGER CHECK (total >= 0),
    max_per_buyer       INTEGER CHECK (max_per_buyer >= 1),
    max_orders          INTEGER CHECK (max_orders >= 1),
    opens_at            INTEGER NOT NULL,
    closes_at           INTEGER CHECK (closes_at > opens_at),
    paused              INTEGER NOT NULL CHECK (paused IN (0, 1)),

    epoch               INTEGER NOT NULL CHECK (epoch >= 0),
    loaded_epoch        INTEGER NOT NULL CHECK (loaded_epoch BETWEEN 0 AND epoch),
    fence               TEXT    NOT NULL,
    taken               INTEGER NOT NULL CHECK (taken >= 0), -- units of stored live orders
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,

    CHECK ((list_price_amount IS NULL) = (list_price_currency IS NULL)),
    CONSTRAINT no_oversell CHECK (total IS NULL OR taken <= total) -- I1, whatever the ledger says
) STRICT;

-- Append-only: an accepted claim is judged by the version it was decided under (I8).
CREATE TABLE sale_terms (
    sale_id       TEXT    NOT NULL REFERENCES sales (id),
    version       INTEGER NOT NULL CHECK (version >= 1),
    total         INTEGER CHECK (total >= 0),
    max_per_buyer INTEGER CHECK (max_per_buyer >= 1),
    max_orders    INTEGER CHECK (max_orders >= 1),
    opens_at      INTEGER NOT NULL,
    closes_at     INTEGER CHECK (closes_at > opens_at),
    paused        INTEGER NOT NULL CHECK (paused IN (0, 1)),
    changed_at    INTEGER NOT NULL,
    PRIMARY KEY (sale_id, version)
) STRICT, WITHOUT ROWID;

-- Orders are never deleted, so position (the rowid) only grows.
CREATE TABLE orders (
    position     INTEGER NOT NULL PRIMARY KEY,
    order_id     TEXT    NOT NULL UNIQUE,
    sale_id      TEXT    NOT NULL REFERENCES sales (id),
    buyer_id     TEXT    NOT NULL,
    claim_key    TEXT    NOT NULL,
    quantity     INTEGER NOT NULL CHECK (quantity >= 1),
    meta         TEXT    NOT NULL,
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

    -- One claim, one order, for ever (I4, I5). The buyer comes first, so that
    -- this also lists the orders of a buyer.
    UNIQUE (buyer_id, sale_id, claim_key),
    -- One place, one order (I5): a place given twice is a ledger that lost data.
    UNIQUE (sale_id, epoch, bucket, seq)
) STRICT;

-- An index ends with the rowid, so this is by sale and position. In older files the
-- position is in it twice.
CREATE INDEX orders_of_sale ON orders (sale_id);
CREATE INDEX orders_to_expire ON orders (keep_until) WHERE status = 'pending';

-- No reference to sales: what could not be stored is kept, whatever it is.
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
    UNIQUE (sale_id, epoch, entry_id)
) STRICT;
