-- Times are UTC with milliseconds. An absent limit is NULL. Ids are compared
-- byte by byte (COLLATE "C"), which is what they mean and the fastest.
-- I1 to I8 are the invariants of docs/invariants.md.

-- +goose Up
CREATE TABLE sales (
    id                  text COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    sku                 text           NOT NULL,
    title               text           NOT NULL,
    price_amount        bigint         NOT NULL CHECK (price_amount >= 0), -- minor units
    price_currency      text           NOT NULL CHECK (length(price_currency) = 3),
    list_price_amount   bigint         CHECK (list_price_amount >= 0),
    list_price_currency text           CHECK (list_price_currency = price_currency),
    payment_window_ms   bigint         NOT NULL CHECK (payment_window_ms > 0),
    payment_grace_ms    bigint         NOT NULL CHECK (payment_grace_ms >= 0),

    -- the terms in force; sale_terms has every version
    terms_version       bigint         NOT NULL CHECK (terms_version >= 1),
    total               bigint         CHECK (total >= 0),
    max_per_buyer       bigint         CHECK (max_per_buyer >= 1),
    max_orders          bigint         CHECK (max_orders >= 1),
    opens_at            timestamptz(3) NOT NULL,
    closes_at           timestamptz(3) CHECK (closes_at > opens_at),
    paused              boolean        NOT NULL,

    epoch               bigint         NOT NULL CHECK (epoch >= 0),
    loaded_epoch        bigint         NOT NULL CHECK (loaded_epoch BETWEEN 0 AND epoch),
    fence               text           NOT NULL,
    taken               bigint         NOT NULL CHECK (taken >= 0), -- units of stored live orders
    created_at          timestamptz(3) NOT NULL,
    updated_at          timestamptz(3) NOT NULL,

    CHECK ((list_price_amount IS NULL) = (list_price_currency IS NULL)),
    CONSTRAINT no_oversell CHECK (total IS NULL OR taken <= total) -- I1, whatever the ledger says
) WITH (fillfactor = 50); -- every batch of orders updates its sale's row: room for that within the page

-- Append-only: an accepted claim is judged by the version it was decided under (I8).
CREATE TABLE sale_terms (
    sale_id       text COLLATE "C" NOT NULL REFERENCES sales (id),
    version       bigint           NOT NULL CHECK (version >= 1),
    total         bigint           CHECK (total >= 0),
    max_per_buyer bigint           CHECK (max_per_buyer >= 1),
    max_orders    bigint           CHECK (max_orders >= 1),
    opens_at      timestamptz(3)   NOT NULL,
    closes_at     timestamptz(3)   CHECK (closes_at > opens_at),
    paused        boolean          NOT NULL,
    changed_at    timestamptz(3)   NOT NULL,
    PRIMARY KEY (sale_id, version)
);

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

    -- One claim, one order, for ever (I4, I5). The buyer comes first, so that
    -- this also lists the orders of a buyer.
    CONSTRAINT orders_claim UNIQUE (buyer_id, sale_id, claim_key),
    -- One place, one order (I5): a place given twice is a ledger that lost data.
    CONSTRAINT orders_place UNIQUE (sale_id, epoch, bucket, seq)
);

CREATE INDEX orders_of_sale ON orders (sale_id, position);
CREATE INDEX orders_to_expire ON orders (keep_until) WHERE status = 'pending';

-- No reference to sales: what could not be stored is kept, whatever it is.
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
    UNIQUE (sale_id, epoch, entry_id)
);
