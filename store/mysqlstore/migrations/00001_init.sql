-- Times are UTC with milliseconds. An absent limit is NULL. Ids are VARBINARY:
-- they are compared byte by byte, and blanks at the end count, which no
-- collation that both MySQL and MariaDB have does. I1 to I8 are the invariants
-- of docs/invariants.md.
--
-- Each statement is a transaction of its own, whatever one does. So that a
-- migration which was cut off can be run again, each says IF NOT EXISTS.

-- +goose Up
CREATE TABLE IF NOT EXISTS sales (
    id                  VARBINARY(48) NOT NULL PRIMARY KEY CHECK (id <> ''),
    sku                 VARCHAR(256)  NOT NULL,
    title               VARCHAR(256)  NOT NULL,
    price_amount        BIGINT        NOT NULL CHECK (price_amount >= 0), -- minor units
    price_currency      VARBINARY(3)  NOT NULL CHECK (length(price_currency) = 3),
    list_price_amount   BIGINT        CHECK (list_price_amount >= 0),
    list_price_currency VARBINARY(3),
    payment_window_ms   BIGINT        NOT NULL CHECK (payment_window_ms > 0),
    payment_grace_ms    BIGINT        NOT NULL CHECK (payment_grace_ms >= 0),

    -- the terms in force; sale_terms has every version
    terms_version       BIGINT        NOT NULL CHECK (terms_version >= 1),
    total               BIGINT        CHECK (total >= 0),
    max_per_buyer       BIGINT        CHECK (max_per_buyer >= 1),
    max_orders          BIGINT        CHECK (max_orders >= 1),
    opens_at            DATETIME(3)   NOT NULL,
    closes_at           DATETIME(3),
    paused              TINYINT(1)    NOT NULL CHECK (paused IN (0, 1)),

    epoch               BIGINT        NOT NULL CHECK (epoch >= 0),
    loaded_epoch        BIGINT        NOT NULL,
    fence               TEXT          NOT NULL,
    taken               BIGINT        NOT NULL CHECK (taken >= 0), -- units of stored live orders
    created_at          DATETIME(3)   NOT NULL,
    updated_at          DATETIME(3)   NOT NULL,

    CONSTRAINT sales_list_price CHECK (list_price_currency = price_currency AND (list_price_amount IS NULL) = (list_price_currency IS NULL)),
    CONSTRAINT sales_window CHECK (closes_at > opens_at),
    CONSTRAINT sales_epochs CHECK (loaded_epoch BETWEEN 0 AND epoch),
    CONSTRAINT sales_no_oversell CHECK (total IS NULL OR taken <= total) -- I1, whatever the ledger says
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Append-only: an accepted claim is judged by the version it was decided under (I8).
CREATE TABLE IF NOT EXISTS sale_terms (
    sale_id       VARBINARY(48) NOT NULL,
    version       BIGINT        NOT NULL CHECK (version >= 1),
    total         BIGINT        CHECK (total >= 0),
    max_per_buyer BIGINT        CHECK (max_per_buyer >= 1),
    max_orders    BIGINT        CHECK (max_orders >= 1),
    opens_at      DATETIME(3)   NOT NULL,
    closes_at     DATETIME(3),
    paused        TINYINT(1)    NOT NULL CHECK (paused IN (0, 1)),
    changed_at    DATETIME(3)   NOT NULL,

    PRIMARY KEY (sale_id, version),
    CONSTRAINT sale_terms_sale FOREIGN KEY (sale_id) REFERENCES sales (id),
    CONSTRAINT sale_terms_window CHECK (closes_at > opens_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- sale_id has no foreign key: every transaction that inserts orders updates the
-- row of their sale, which is never deleted, so the check per row would cost
-- and never fail.
CREATE TABLE IF NOT EXISTS orders (
    position     BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_id     VARBINARY(81)  NOT NULL,
    sale_id      VARBINARY(48)  NOT NULL,
    buyer_id     VARBINARY(128) NOT NULL,
    claim_key    VARBINARY(64)  NOT NULL,
    quantity     BIGINT         NOT NULL CHECK (quantity >= 1),
    meta         VARCHAR(512)   NOT NULL,
    price_amount BIGINT         NOT NULL CHECK (price_amount >= 0),
    currency     VARBINARY(3)   NOT NULL,
    status       VARBINARY(16)  NOT NULL CHECK (status IN
        ('pending', 'paid', 'rejected', 'cancelled', 'expired', 'refunded', 'refund_due')),
    reason       TEXT           NOT NULL,
    epoch        BIGINT         NOT NULL CHECK (epoch >= 1),
    bucket       BIGINT         NOT NULL DEFAULT 0,
    seq          BIGINT         NOT NULL CHECK (seq >= 1),
    terms        BIGINT         NOT NULL CHECK (terms >= 1),
    node         TEXT           NOT NULL,
    accepted_at  DATETIME(3)    NOT NULL, -- the ledger's clock
    stored_at    DATETIME(3)    NOT NULL, -- the store's clock
    expires_at   DATETIME(3)    NOT NULL, -- what the buyer is told
    keep_until   DATETIME(3)    NOT NULL, -- a payment before it is in time
    updated_at   DATETIME(3)    NOT NULL,
    payment_id   VARBINARY(128) NOT NULL DEFAULT '',

    CONSTRAINT orders_order_id UNIQUE (order_id),
    -- One claim, one order, for ever (I4, I5). The buyer comes first, so that
    -- this also lists the orders of a buyer.
    CONSTRAINT orders_claim UNIQUE (buyer_id, sale_id, claim_key),
    -- One place, one order (I5): a place given twice is a ledger that lost data.
    CONSTRAINT orders_place UNIQUE (sale_id, epoch, bucket, seq),
    CONSTRAINT orders_times CHECK (expires_at > stored_at AND keep_until >= expires_at AND updated_at >= stored_at),

    INDEX orders_of_sale (sale_id, position),
    INDEX orders_to_expire (status, keep_until)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- No reference to sales: what could not be stored is kept, whatever it is.
CREATE TABLE IF NOT EXISTS dead_letters (
    id          BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sale_id     VARBINARY(255) NOT NULL,
    epoch       BIGINT         NOT NULL,
    entry_id    VARBINARY(255) NOT NULL,
    reason      TEXT           NOT NULL,
    claims      LONGBLOB       NOT NULL, -- as in the journal, perhaps damaged
    first_seq   BIGINT         NOT NULL,
    terms       BIGINT         NOT NULL,
    node        TEXT           NOT NULL,
    accepted_at DATETIME(3),
    created_at  DATETIME(3)    NOT NULL,

    CONSTRAINT dead_letters_entry UNIQUE (sale_id, epoch, entry_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
