-- PostgreSQL as the ledger too (docs/adr/0013-postgresql-is-the-ledger-too.md). The
-- records of accepted claims are the orders; what is here is what a ledger knows
-- besides.

-- +goose Up
SET LOCAL lock_timeout = '200ms';

-- One row for each sale that this ledger holds. The transaction that changes it
-- holds the sale's row, but for one that lets a cooldown begin.
CREATE TABLE ledger_sales (
    sale_id        text COLLATE "C" PRIMARY KEY,
    epoch          bigint         NOT NULL CHECK (epoch >= 1), -- of the load
    seq            bigint         NOT NULL CHECK (seq >= 0),   -- of the last accepted claim of the epoch

    -- the terms that decide
    version        bigint         NOT NULL CHECK (version >= 1),
    total          bigint         CHECK (total >= 0),
    max_per_buyer  bigint         CHECK (max_per_buyer >= 1),
    max_orders     bigint         CHECK (max_orders >= 1),
    max_unpaid     bigint         CHECK (max_unpaid >= 1),
    opens_at       timestamptz(3) NOT NULL,
    closes_at      timestamptz(3) CHECK (closes_at > opens_at),
    paused         boolean        NOT NULL,

    fence          text           NOT NULL,
    cooldown       smallint       NOT NULL DEFAULT 0, -- the refusal that goes on until cooldown_until, or 0
    cooldown_until timestamptz(3),
    reopened       smallint       NOT NULL DEFAULT 0, -- of a cooldown that begins when it is first seen
    promised       bigint         NOT NULL CHECK (promised >= 0), -- units of ledger_promises when they were loaded
    told           jsonb          NOT NULL DEFAULT '{}' -- the last sequence that each server was told
) WITH (fillfactor = 50); -- as sales

-- Claims of dead letters that a load has brought in: they hold units, and have no
-- order yet. A row counts until there is one.
CREATE TABLE ledger_promises (
    sale_id     text COLLATE "C" NOT NULL,
    buyer_id    text COLLATE "C" NOT NULL,
    claim_key   text COLLATE "C" NOT NULL,
    order_id    text COLLATE "C" NOT NULL,
    quantity    bigint           NOT NULL CHECK (quantity >= 1),
    meta        text             NOT NULL,
    epoch       bigint           NOT NULL,
    seq         bigint           NOT NULL,
    terms       bigint           NOT NULL,
    accepted_at timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, buyer_id, claim_key)
);

-- Whatever lowers taken frees units of the ledger in the same transaction. If the sale
-- was sold out, a cooldown is to begin once that is seen.
-- +goose StatementBegin
CREATE FUNCTION ledger_units_returned() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE ledger_sales SET reopened = 9 -- sluice.SoldOut
    WHERE sale_id = NEW.id AND epoch = NEW.epoch AND reopened <> 9 AND OLD.taken + promised >= total;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER ledger_units_returned AFTER UPDATE OF taken ON sales
    FOR EACH ROW WHEN (NEW.taken < OLD.taken) EXECUTE FUNCTION ledger_units_returned();

-- What bounds requests only. It is forgotten when the database crashes.
CREATE UNLOGGED TABLE ledger_rates (
    sale_id text COLLATE "C" NOT NULL,
    who     text COLLATE "C" NOT NULL, -- b and a buyer, or a and an address
    paid    bigint           NOT NULL, -- sluice.Meter: microseconds since 1970
    PRIMARY KEY (sale_id, who)
);

CREATE UNLOGGED TABLE ledger_permits (
    sale_id text COLLATE "C" NOT NULL,
    node    text COLLATE "C" NOT NULL,
    epoch   bigint           NOT NULL,
    call    bigint           NOT NULL, -- the number of the server's last call
    permits bigint           NOT NULL,
    ends_at timestamptz(3)   NOT NULL, -- when they are void
    PRIMARY KEY (sale_id, node)
);
