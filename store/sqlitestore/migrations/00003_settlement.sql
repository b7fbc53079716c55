-- Totals that change while a sale runs, sales that are archived, dead letters
-- that are dealt with, and servers that know of each other.

-- +goose Up

-- SQLite cannot change the CHECKs of a table, so sales is made anew. What refers
-- to it finds its rows again before the transaction ends, and only then counts.
PRAGMA defer_foreign_keys = ON;

CREATE TEMP TABLE sales_before AS SELECT * FROM main.sales;

DROP TABLE main.sales;

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
    cap                 INTEGER, -- total, or more while a lowered total has not reached the ledger
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    archived_at         INTEGER,

    CHECK ((list_price_amount IS NULL) = (list_price_currency IS NULL)),
    CONSTRAINT cap_covers_total CHECK ((cap IS NULL) = (total IS NULL) AND (cap IS NULL OR cap >= total)),
    CONSTRAINT no_oversell CHECK (cap IS NULL OR taken <= cap) -- I1, whatever the ledger says
) STRICT;

INSERT INTO sales
    (id, sku, title, price_amount, price_currency, list_price_amount, list_price_currency, payment_window_ms, payment_grace_ms,
     terms_version, total, max_per_buyer, max_orders, opens_at, closes_at, paused, epoch, loaded_epoch, fence, taken, cap,
     created_at, updated_at)
SELECT id, sku, title, price_amount, price_currency, list_price_amount, list_price_currency, payment_window_ms, payment_grace_ms,
     terms_version, total, max_per_buyer, max_orders, opens_at, closes_at, paused, epoch, loaded_epoch, fence, taken, total,
     created_at, updated_at
FROM temp.sales_before;

DROP TABLE temp.sales_before;

-- Changes of totals, each once.
CREATE TABLE restocks (
    sale_id       TEXT    NOT NULL REFERENCES sales (id),
    restock_id    TEXT    NOT NULL,
    delta         INTEGER NOT NULL CHECK (delta <> 0),
    terms_version INTEGER NOT NULL CHECK (terms_version >= 2), -- the one that it made
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (sale_id, restock_id)
) STRICT, WITHOUT ROWID;

ALTER TABLE dead_letters ADD COLUMN resolved_at INTEGER;
ALTER TABLE dead_letters ADD COLUMN resolution TEXT NOT NULL DEFAULT '';

CREATE INDEX dead_letters_open ON dead_letters (sale_id) WHERE resolved_at IS NULL;

-- What one server at a time does. A row stays when nobody holds it.
CREATE TABLE leases (
    name       TEXT    NOT NULL PRIMARY KEY,
    holder     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When each server was last heard of.
CREATE TABLE nodes (
    node    TEXT    NOT NULL PRIMARY KEY,
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
