-- Times are UTC with milliseconds. An absent limit is NULL. Ids are compared
-- byte by byte (COLLATE "C"), which is what they mean and the fastest.
-- I1 to I8 are the invariants of docs/invariants.md.

-- +goose Up

-- Sales ------------------------------------------------------------------------------

-- PostgreSQL parses every CHECK of a table for each statement that writes to it: a sixth of
-- what a small batch of claims costs it. A batch changes counters alone, so what holds for
-- the other columns is checked by sales_checked, when those change.
CREATE TABLE sales (
    id                  text COLLATE "C" PRIMARY KEY,
    sku                 text           NOT NULL,
    title               text           NOT NULL,
    price_amount        bigint         NOT NULL, -- minor units
    price_currency      text           NOT NULL,
    list_price_amount   bigint,
    list_price_currency text,
    free                boolean        NOT NULL, -- its orders are paid when they are stored
    payment_window_ms   bigint         NOT NULL,
    payment_grace_ms    bigint         NOT NULL,
    rules               jsonb          NOT NULL DEFAULT '{}', -- asked of a buyer before the ledger
    showcase            text           NOT NULL DEFAULT '{}', -- how buyers see it, as JSON

    -- the terms in force; sale_terms has every version
    terms_version       bigint         NOT NULL,
    total               bigint,
    max_per_buyer       bigint,
    max_orders          bigint,
    max_unpaid          bigint, -- orders of a buyer that ended unpaid
    opens_at            timestamptz(3) NOT NULL,
    closes_at           timestamptz(3),
    paused              boolean        NOT NULL,

    -- the ledger that decides about the sale
    ledger              text           NOT NULL DEFAULT '',
    epoch               bigint         NOT NULL,
    loaded_epoch        bigint         NOT NULL,
    fence               text           NOT NULL,
    taken               bigint         NOT NULL CHECK (taken >= 0), -- units of stored live orders
    cap                 bigint, -- total, or more while a lowered total has not reached the ledger

    created_at          timestamptz(3) NOT NULL,
    updated_at          timestamptz(3) NOT NULL,
    archived_at         timestamptz(3),
    erased_at           timestamptz(3), -- when its buyers were erased
    purged_at           timestamptz(3), -- when the last of its orders was deleted
    remains             text, -- of its orders, as JSON, once the first one is deleted

    CONSTRAINT no_oversell CHECK (cap IS NULL OR taken <= cap) -- I1, whatever the ledger says
) WITH (fillfactor = 50); -- every batch of orders updates its sale's row: room for that within the page

-- Every server reads the sales that are not archived all the time. The few that are to
-- be erased or purged are found without reading the others.
CREATE INDEX sales_live ON sales (id) WHERE archived_at IS NULL;
CREATE INDEX sales_to_erase ON sales (id) WHERE erased_at IS NULL AND archived_at IS NOT NULL;
CREATE INDEX sales_to_purge ON sales (id) WHERE purged_at IS NULL AND archived_at IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION sales_checked() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE wrong text := CASE
    WHEN NEW.id = '' THEN 'the id is empty'
    WHEN NEW.price_amount < 0 THEN 'price_amount < 0'
    WHEN length(NEW.price_currency) <> 3 THEN 'price_currency has not 3 letters'
    WHEN NEW.list_price_amount < 0 THEN 'list_price_amount < 0'
    WHEN (NEW.list_price_amount IS NULL) <> (NEW.list_price_currency IS NULL) THEN 'half a list_price'
    WHEN NEW.list_price_currency <> NEW.price_currency THEN 'list_price_currency is another one'
    WHEN NEW.free AND NEW.price_amount <> 0 THEN 'free, with a price'
    WHEN NEW.payment_window_ms <= 0 THEN 'payment_window_ms <= 0'
    WHEN NEW.payment_grace_ms < 0 THEN 'payment_grace_ms < 0'
    WHEN NEW.terms_version < 1 THEN 'terms_version < 1'
    WHEN NEW.total < 0 THEN 'total < 0'
    WHEN (NEW.cap IS NULL) <> (NEW.total IS NULL) OR NEW.cap < NEW.total THEN 'cap does not cover total'
    WHEN NEW.max_per_buyer < 1 THEN 'max_per_buyer < 1'
    WHEN NEW.max_orders < 1 THEN 'max_orders < 1'
    WHEN NEW.max_unpaid < 1 THEN 'max_unpaid < 1'
    WHEN NEW.closes_at <= NEW.opens_at THEN 'closes_at <= opens_at'
    WHEN NEW.epoch < 0 THEN 'epoch < 0'
    WHEN NEW.loaded_epoch NOT BETWEEN 0 AND NEW.epoch THEN 'loaded_epoch is not one of 0 to epoch'
END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE check_violation USING MESSAGE = format('row of sales %L: %s', NEW.id, wrong), TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER sales_checked AFTER INSERT OR UPDATE OF id, price_amount, price_currency, list_price_amount,
    list_price_currency, free, payment_window_ms, payment_grace_ms, terms_version, total, cap, max_per_buyer,
    max_orders, max_unpaid, opens_at, closes_at, epoch, loaded_epoch
    ON sales FOR EACH ROW EXECUTE FUNCTION sales_checked();
-- As checks are: also for what a subscription applies.
ALTER TABLE sales ENABLE ALWAYS TRIGGER sales_checked;

-- Append-only: an accepted claim is judged by the version it was decided under (I8).
CREATE TABLE sale_terms (
    sale_id       text COLLATE "C" NOT NULL REFERENCES sales (id),
    version       bigint           NOT NULL CHECK (version >= 1),
    total         bigint           CHECK (total >= 0),
    max_per_buyer bigint           CHECK (max_per_buyer >= 1),
    max_orders    bigint           CHECK (max_orders >= 1),
    max_unpaid    bigint           CHECK (max_unpaid >= 1),
    opens_at      timestamptz(3)   NOT NULL,
    closes_at     timestamptz(3)   CHECK (closes_at > opens_at),
    paused        boolean          NOT NULL,
    changed_at    timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, version)
);

-- Changes of totals, each once.
CREATE TABLE restocks (
    sale_id       text COLLATE "C" NOT NULL REFERENCES sales (id),
    restock_id    text COLLATE "C" NOT NULL,
    delta         bigint           NOT NULL CHECK (delta <> 0),
    terms_version bigint           NOT NULL CHECK (terms_version >= 2), -- the one that it made
    created_at    timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, restock_id)
);

-- Pictures that a sale's showcase names or is about to name, as JPEG, once for each size: pixels
-- of the longer side.
CREATE TABLE pictures (
    sale_id text COLLATE "C" NOT NULL REFERENCES sales (id),
    id      text COLLATE "C" NOT NULL,
    size    bigint           NOT NULL CHECK (size > 0),
    jpeg    bytea            NOT NULL,
    PRIMARY KEY (sale_id, id, size)
);

-- Lists of buyers who may buy at a sale, or may not. A list is uploaded under a
-- generation of its own; the one that sale_lists names is in force.
CREATE TABLE sale_lists (
    sale_id         text COLLATE "C" NOT NULL REFERENCES sales (id),
    kind            text COLLATE "C" NOT NULL CHECK (kind IN ('allow', 'deny')),
    generation      bigint           NOT NULL DEFAULT 0 CHECK (generation BETWEEN 0 AND last_generation), -- 0: none
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

-- Orders -----------------------------------------------------------------------------

-- sale_id has no foreign key: every transaction that inserts orders updates the
-- row of their sale, which is never deleted, so the check per row would cost
-- and never fail.
CREATE TABLE orders (
    position     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id     text COLLATE "C" NOT NULL CONSTRAINT orders_order_id UNIQUE,
    sale_id      text COLLATE "C" NOT NULL,
    buyer_id     text COLLATE "C" NOT NULL,
    claim_key    text COLLATE "C" NOT NULL,
    quantity     bigint           NOT NULL CHECK (quantity >= 1),
    meta         text             NOT NULL,
    counters     text COLLATE "C" NOT NULL DEFAULT '', -- NAME=MAX, separated by spaces
    price_amount bigint           NOT NULL CHECK (price_amount >= 0),
    currency     text             NOT NULL,
    status       text COLLATE "C" NOT NULL CHECK (status IN
        ('pending', 'paid', 'rejected', 'cancelled', 'expired', 'refunded', 'refund_due')),
    reason       text             NOT NULL,
    epoch        bigint           NOT NULL CHECK (epoch >= 1),
    bucket       bigint           NOT NULL DEFAULT 0,
    seq          bigint           NOT NULL CHECK (seq >= 1),
    terms        bigint           NOT NULL CHECK (terms >= 1),
    node         text             NOT NULL,
    accepted_at  timestamptz(3)   NOT NULL, -- the ledger's clock
    stored_at    timestamptz(3)   NOT NULL, -- the store's clock
    expires_at   timestamptz(3)   NOT NULL CHECK (expires_at > stored_at), -- what the buyer is told
    keep_until   timestamptz(3)   NOT NULL CHECK (keep_until >= expires_at), -- a payment before it is in time
    updated_at   timestamptz(3)   NOT NULL CHECK (updated_at >= stored_at),
    payment_id   text             NOT NULL DEFAULT '',
    unpaid       boolean          NOT NULL DEFAULT false, -- it expired, or its buyer cancelled it

    -- One claim, one order, for ever (I4, I5). The buyer comes first, so that
    -- this also lists the orders of a buyer.
    CONSTRAINT orders_claim UNIQUE (buyer_id, sale_id, claim_key),
    -- One place, one order (I5): a place given twice is a ledger that lost data.
    CONSTRAINT orders_place UNIQUE (sale_id, epoch, bucket, seq)
);

CREATE INDEX orders_of_sale ON orders (sale_id, position);
CREATE INDEX orders_to_expire ON orders (keep_until) WHERE status = 'pending';
-- The live orders that a counter counts, where this database is the ledger as well. A claim reads
-- what the one before has written, so nothing is left for later.
CREATE INDEX orders_counted ON orders USING gin (string_to_array(regexp_replace(counters, '=[0-9]+', '', 'g'), ' '))
    WITH (fastupdate = off) WHERE counters <> '' AND status IN ('pending', 'paid');

-- What happens to orders after they were stored. Append-only. An order leaves each
-- status at most once, as no step leads back: so it ends at most once (I6). A refused
-- payment leaves the status as it is; it is kept once, however often it is tried.
-- There is no foreign key: the transaction that writes here locks the order's row.
CREATE TABLE order_changes (
    position    bigint GENERATED ALWAYS AS IDENTITY, -- grows with the changes of an order
    order_id    text COLLATE "C" NOT NULL,
    changed_at  timestamptz(3)   NOT NULL, -- the store's clock
    from_status text COLLATE "C" NOT NULL,
    to_status   text COLLATE "C" NOT NULL,
    action      text COLLATE "C" NOT NULL,
    changed_by  text             NOT NULL,
    reason      text             NOT NULL,
    payment_id  text COLLATE "C" NOT NULL, -- the payment that was recorded
    refused     text COLLATE "C" NOT NULL, -- the one that was not: another amount, or a second payment
    event       bigint, -- its number in the feed, once it has one

    PRIMARY KEY (order_id, from_status, refused),
    -- The steps of a stored order. Units return with those that leave pending
    -- and paid for another than paid: one of them at most on each way (I6).
    CONSTRAINT order_changes_step CHECK (refused <> '' OR from_status || ' ' || to_status IN (
        'pending paid', 'pending cancelled', 'pending expired', 'pending rejected', 'paid refunded', 'paid refund_due',
        'cancelled refund_due', 'expired refund_due', 'rejected refund_due', 'refund_due refunded')),
    CONSTRAINT order_changes_refused CHECK (refused = '' OR from_status = to_status AND payment_id = '')
);

CREATE INDEX order_changes_event ON order_changes (event, position);

-- Which order has a payment: one at most, over all servers.
CREATE TABLE payments (
    payment_id text COLLATE "C" PRIMARY KEY,
    order_id   text COLLATE "C" NOT NULL UNIQUE
);

-- The outbox: units on their way back to the ledger. A row is written by the transaction
-- that ends its order, and deleted when the ledger has taken it.
CREATE TABLE releases (
    order_id   text COLLATE "C" PRIMARY KEY, -- one order, one release (I6)
    position   bigint GENERATED ALWAYS AS IDENTITY,
    sale_id    text COLLATE "C" NOT NULL,
    buyer_id   text COLLATE "C" NOT NULL,
    claim_key  text COLLATE "C" NOT NULL,
    quantity   bigint           NOT NULL CHECK (quantity >= 1),
    unpaid     boolean          NOT NULL DEFAULT false,
    epoch      bigint           NOT NULL CHECK (epoch >= 0), -- of the sale when the order ended
    created_at timestamptz(3)   NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000); -- rows come and go

CREATE INDEX releases_of_sale ON releases (sale_id, position);

-- Batches of the journal that could not be stored. No reference to sales: they are kept,
-- whatever is in them.
CREATE TABLE dead_letters (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sale_id     text COLLATE "C" NOT NULL,
    epoch       bigint           NOT NULL,
    entry_id    text COLLATE "C" NOT NULL,
    reason      text             NOT NULL,
    claims      bytea            NOT NULL, -- as in the journal, perhaps damaged
    first_seq   bigint           NOT NULL,
    terms       bigint           NOT NULL,
    node        text             NOT NULL,
    accepted_at timestamptz(3),
    created_at  timestamptz(3)   NOT NULL,
    resolved_at timestamptz(3),
    resolution  text             NOT NULL DEFAULT '',
    UNIQUE (sale_id, epoch, entry_id)
);

CREATE INDEX dead_letters_open ON dead_letters (sale_id) WHERE resolved_at IS NULL;

-- Events -----------------------------------------------------------------------------

-- Events are what was committed, numbered. Nothing is copied but the rows of sales, which
-- change: an order's events are its row and its changes.

-- One row. Whoever numbers holds it, so numbers are dense and in one order.
CREATE TABLE event_feed (
    id          bigint PRIMARY KEY CHECK (id = 1),
    first_event bigint NOT NULL DEFAULT 1 CHECK (first_event >= 1), -- the first that is not deleted
    last_event  bigint NOT NULL CHECK (last_event >= 0)
) WITH (fillfactor = 50);

INSERT INTO event_feed (id, last_event) VALUES (1, 0);

-- Written by the transaction that stores orders: those of a sale at the positions after
-- after_position, up to upto_position. Within a sale positions grow in commit order, for the
-- sale's row is locked while orders are inserted.
CREATE TABLE order_events (
    position       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sale_id        text COLLATE "C" NOT NULL,
    after_position bigint           NOT NULL,
    upto_position  bigint           NOT NULL CHECK (upto_position > after_position),
    orders         bigint           NOT NULL CHECK (orders >= 1),
    stored_at      timestamptz(3)   NOT NULL,
    event          bigint -- the last of them
);

CREATE INDEX order_events_event ON order_events (event, position);
CREATE INDEX order_events_of_sale ON order_events (sale_id, upto_position);

-- Written by the transaction that changes a sale.
CREATE TABLE sale_events (
    position   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sale_id    text COLLATE "C" NOT NULL,
    type       text COLLATE "C" NOT NULL,
    created_at timestamptz(3)   NOT NULL,
    sale       text             NOT NULL, -- the row as it was then, as JSON
    event      bigint
);

CREATE INDEX sale_events_event ON sale_events (event, position);

-- Webhooks ---------------------------------------------------------------------------

CREATE TABLE webhooks (
    id           text COLLATE "C" PRIMARY KEY,
    position     bigint GENERATED ALWAYS AS IDENTITY,
    url          text             NOT NULL,
    description  text             NOT NULL,
    secret       text             NOT NULL,
    types        text             NOT NULL, -- separated by blanks; empty: all
    created_at   timestamptz(3)   NOT NULL,
    updated_at   timestamptz(3)   NOT NULL,
    disabled_at  timestamptz(3),
    disabled_why text             NOT NULL,

    last_event   bigint           NOT NULL CHECK (last_event >= 0), -- delivered up to here, or kept below
    delivered    bigint           NOT NULL,
    failures     bigint           NOT NULL CHECK (failures >= 0),
    retry_at     timestamptz(3),
    last_success timestamptz(3),
    last_failure timestamptz(3),
    last_error   text             NOT NULL
) WITH (fillfactor = 50);

-- Events that have not reached their webhook.
CREATE TABLE webhook_deliveries (
    webhook_id  text COLLATE "C" NOT NULL REFERENCES webhooks (id),
    event       bigint           NOT NULL,
    subject     text COLLATE "C" NOT NULL, -- an order, or a sale
    state       text COLLATE "C" NOT NULL CHECK (state IN ('pending', 'failed')),
    attempts    bigint           NOT NULL CHECK (attempts >= 0),
    next_at     timestamptz(3)   NOT NULL,
    last_status bigint           NOT NULL,
    last_error  text             NOT NULL,
    updated_at  timestamptz(3)   NOT NULL,
    PRIMARY KEY (webhook_id, event)
);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, state, next_at);
CREATE INDEX webhook_deliveries_subject ON webhook_deliveries (webhook_id, subject, state, event);

-- Servers and admins -----------------------------------------------------------------

-- What one server at a time does. A row stays when nobody holds it.
CREATE TABLE leases (
    name       text COLLATE "C" PRIMARY KEY,
    holder     text COLLATE "C" NOT NULL,
    fence      bigint           NOT NULL DEFAULT 0, -- higher than that of each holder before (lock.Backend)
    ttl        bigint           NOT NULL DEFAULT 0, -- milliseconds it was taken for
    expires_at timestamptz(3)   NOT NULL
);

-- When each server was last heard of, and the ledger that it has.
CREATE TABLE nodes (
    node    text COLLATE "C" PRIMARY KEY,
    ledger  text             NOT NULL DEFAULT '',
    about   text             NOT NULL DEFAULT '{}', -- what the server says of itself, as JSON
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

-- What servers have counted of the claims on sales, second by second, for those who look on. Deleted when the sale is archived or deleted.
CREATE TABLE stretches (
    sale_id  text COLLATE "C" NOT NULL,
    begun_at timestamptz(3)   NOT NULL, -- by the server's clock
    node     text COLLATE "C" NOT NULL,
    ended    boolean          NOT NULL,
    figures  bytea            NOT NULL,
    PRIMARY KEY (sale_id, begun_at, node)
);

-- What admins did, or tried to do. Rows are added and never changed; what nobody
-- needs any more may be deleted by hand, the oldest first.
CREATE TABLE admin_actions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    acted_at   timestamptz(3)   NOT NULL, -- the store's clock
    actor      text             NOT NULL,
    route      text             NOT NULL,
    path       text             NOT NULL,
    sale_id    text COLLATE "C" NOT NULL,
    order_id   text COLLATE "C" NOT NULL,
    status     integer          NOT NULL,
    code       text COLLATE "C" NOT NULL,
    request_id text             NOT NULL,
    address    text             NOT NULL,
    node       text             NOT NULL
);

-- The ledger -------------------------------------------------------------------------

-- PostgreSQL as the ledger too (docs/adr/0013-postgresql-is-the-ledger-too.md). The
-- records of accepted claims are the orders; what is here is what a ledger knows besides.

-- One row for each sale that this ledger holds. The transaction that changes it holds the
-- sale's row, but for one that lets a cooldown begin. Checked as sales are.
CREATE TABLE ledger_sales (
    sale_id        text COLLATE "C" PRIMARY KEY,
    epoch          bigint         NOT NULL, -- of the load
    seq            bigint         NOT NULL CHECK (seq >= 0), -- of the last accepted claim of the epoch

    -- the terms that decide
    version        bigint         NOT NULL,
    total          bigint,
    max_per_buyer  bigint,
    max_orders     bigint,
    max_unpaid     bigint,
    opens_at       timestamptz(3) NOT NULL,
    closes_at      timestamptz(3),
    paused         boolean        NOT NULL,

    fence          text           NOT NULL,
    cooldown       smallint       NOT NULL DEFAULT 0, -- the refusal that goes on until cooldown_until, or 0
    cooldown_until timestamptz(3),
    reopened       smallint       NOT NULL DEFAULT 0, -- of a cooldown that begins when it is first seen
    promised       bigint         NOT NULL -- units of ledger_promises when they were loaded
) WITH (fillfactor = 50); -- as sales

-- +goose StatementBegin
CREATE FUNCTION ledger_sales_checked() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE wrong text := CASE
    WHEN NEW.epoch < 1 THEN 'epoch < 1'
    WHEN NEW.version < 1 THEN 'version < 1'
    WHEN NEW.total < 0 THEN 'total < 0'
    WHEN NEW.max_per_buyer < 1 THEN 'max_per_buyer < 1'
    WHEN NEW.max_orders < 1 THEN 'max_orders < 1'
    WHEN NEW.max_unpaid < 1 THEN 'max_unpaid < 1'
    WHEN NEW.closes_at <= NEW.opens_at THEN 'closes_at <= opens_at'
    WHEN NEW.promised < 0 THEN 'promised < 0'
END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE check_violation USING MESSAGE = format('row of ledger_sales %L: %s', NEW.sale_id, wrong),
            TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER ledger_sales_checked AFTER INSERT OR UPDATE OF epoch, version, total, max_per_buyer, max_orders,
    max_unpaid, opens_at, closes_at, promised
    ON ledger_sales FOR EACH ROW EXECUTE FUNCTION ledger_sales_checked();
ALTER TABLE ledger_sales ENABLE ALWAYS TRIGGER ledger_sales_checked;

-- Claims of dead letters that a load has brought in: they hold units, and have no
-- order yet. A row counts until there is one.
CREATE TABLE ledger_promises (
    sale_id     text COLLATE "C" NOT NULL,
    buyer_id    text COLLATE "C" NOT NULL,
    claim_key   text COLLATE "C" NOT NULL,
    order_id    text COLLATE "C" NOT NULL,
    quantity    bigint           NOT NULL CHECK (quantity >= 1),
    meta        text             NOT NULL,
    counters    text COLLATE "C" NOT NULL DEFAULT '',
    epoch       bigint           NOT NULL,
    seq         bigint           NOT NULL,
    terms       bigint           NOT NULL,
    accepted_at timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, buyer_id, claim_key)
);

-- The units of a sale's promises that have no order yet.
-- +goose StatementBegin
CREATE FUNCTION ledger_promised(sale text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(sum(p.quantity), 0)::bigint FROM ledger_promises p
        WHERE p.sale_id = sale COLLATE "C" AND NOT EXISTS (SELECT FROM orders o WHERE o.order_id = p.order_id));
END
$$;
-- +goose StatementEnd

-- Whatever lowers taken frees units of the ledger in the same transaction. If the sale
-- was sold out, a cooldown is to begin once that is seen.
-- +goose StatementBegin
CREATE FUNCTION ledger_units_returned() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE ledger_sales SET reopened = 9 -- sluice.SoldOut
    WHERE sale_id = NEW.id AND epoch = NEW.epoch AND reopened <> 9 AND OLD.taken + promised >= total
        AND (promised = 0 OR OLD.taken + ledger_promised(NEW.id) >= total);
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
