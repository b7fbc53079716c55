-- Lists of buyers who may buy at a sale, or may not. A list is uploaded under a
-- generation of its own; the one that sale_lists names is in force.

-- +goose Up
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
