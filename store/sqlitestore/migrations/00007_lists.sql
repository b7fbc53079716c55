-- Lists of buyers who may buy at a sale, or may not. A list is uploaded under a
-- generation of its own; the one that sale_lists names is in force.

-- +goose Up
CREATE TABLE sale_lists (
    sale_id         TEXT    NOT NULL REFERENCES sales (id),
    kind            TEXT    NOT NULL CHECK (kind IN ('allow', 'deny')),
    generation      INTEGER NOT NULL DEFAULT 0 CHECK (generation BETWEEN 0 AND last_generation), -- 0: none is in force
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
