-- Lists of buyers who may buy at a sale, or may not. A list is uploaded under a
-- generation of its own; the one that sale_lists names is in force.

-- +goose Up
CREATE TABLE sale_lists (
    sale_id         text COLLATE "C" NOT NULL REFERENCES sales (id),
    kind            text COLLATE "C" NOT NULL CHECK (kind IN ('allow', 'deny')),
    generation      bigint           NOT NULL DEFAULT 0 CHECK (generation BETWEEN 0 AND last_generation), -- 0: none is in force
    last_generation bigint           NOT NULL DEFAULT 0, -- the last one that an upload took
    size            bigint           NOT NULL DEFAULT 0 CHECK (size >= 0),
    updated_at      timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, kind)
);

CREATE TABLE sale_buyers (
    sale_id    text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    generation bigint           NOT NULL,
    buyer_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (sale_id, kind, generation, buyer_id)
);
