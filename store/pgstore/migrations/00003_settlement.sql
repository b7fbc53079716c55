-- Totals that change while a sale runs, sales that are archived, dead letters
-- that are dealt with, and servers that know of each other.

-- +goose Up
ALTER TABLE sales
    ADD COLUMN cap         bigint, -- total, or more while a lowered total has not reached the ledger
    ADD COLUMN archived_at timestamptz(3);

UPDATE sales SET cap = total;

ALTER TABLE sales
    DROP CONSTRAINT no_oversell,
    ADD CONSTRAINT no_oversell CHECK (cap IS NULL OR taken <= cap), -- I1, whatever the ledger says
    ADD CONSTRAINT cap_covers_total CHECK ((cap IS NULL) = (total IS NULL) AND (cap IS NULL OR cap >= total));

-- Changes of totals, each once.
CREATE TABLE restocks (
    sale_id       text COLLATE "C" NOT NULL REFERENCES sales (id),
    restock_id    text COLLATE "C" NOT NULL,
    delta         bigint           NOT NULL CHECK (delta <> 0),
    terms_version bigint           NOT NULL CHECK (terms_version >= 2), -- the one that it made
    created_at    timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, restock_id)
);

ALTER TABLE dead_letters
    ADD COLUMN resolved_at timestamptz(3),
    ADD COLUMN resolution  text NOT NULL DEFAULT '';

CREATE INDEX dead_letters_open ON dead_letters (sale_id) WHERE resolved_at IS NULL;

-- What one server at a time does. A row stays when nobody holds it.
CREATE TABLE leases (
    name       text COLLATE "C" PRIMARY KEY,
    holder     text COLLATE "C" NOT NULL,
    expires_at timestamptz(3)   NOT NULL
);

-- When each server was last heard of.
CREATE TABLE nodes (
    node    text COLLATE "C" PRIMARY KEY,
    seen_at timestamptz(3)   NOT NULL
);

-- Servers that have stored what they remember of a sale that is rebuilt.
CREATE TABLE gathered (
    sale_id     text COLLATE "C" NOT NULL,
    epoch       bigint           NOT NULL,
    node        text COLLATE "C" NOT NULL,
    gathered_at timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, epoch, node)
);
