-- Webhooks, and the events that have not reached them.
--
-- Each statement is a transaction of its own. So that a migration which was cut
-- off can be run again, each says IF NOT EXISTS.

-- +goose Up
-- types are separated by blanks; empty: all. Up to last_event events are
-- delivered, or kept in the other table.
CREATE TABLE IF NOT EXISTS webhooks (
    position     BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id           VARBINARY(64)   NOT NULL,
    url          VARBINARY(2048) NOT NULL,
    description  VARCHAR(256)    NOT NULL,
    secret       VARBINARY(128)  NOT NULL,
    types        TEXT            NOT NULL,
    created_at   DATETIME(3)     NOT NULL,
    updated_at   DATETIME(3)     NOT NULL,
    disabled_at  DATETIME(3),
    disabled_why TEXT            NOT NULL,

    last_event   BIGINT          NOT NULL CHECK (last_event >= 0),
    delivered    BIGINT          NOT NULL,
    failures     BIGINT          NOT NULL CHECK (failures >= 0),
    retry_at     DATETIME(3),
    last_success DATETIME(3),
    last_failure DATETIME(3),
    last_error   TEXT            NOT NULL,

    CONSTRAINT webhooks_id UNIQUE (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- There is no foreign key: the row of the webhook is locked by the transaction
-- that writes. subject is an order, or a sale.
CREATE TABLE IF NOT EXISTS webhook_deliveries (
    webhook_id  VARBINARY(64) NOT NULL,
    event       BIGINT        NOT NULL,
    subject     VARBINARY(81) NOT NULL,
    state       VARBINARY(16) NOT NULL CHECK (state IN ('pending', 'failed')),
    attempts    BIGINT        NOT NULL CHECK (attempts >= 0),
    next_at     DATETIME(3)   NOT NULL,
    last_status BIGINT        NOT NULL,
    last_error  TEXT          NOT NULL,
    updated_at  DATETIME(3)   NOT NULL,

    PRIMARY KEY (webhook_id, event),
    INDEX webhook_deliveries_due (webhook_id, state, next_at),
    INDEX webhook_deliveries_subject (webhook_id, subject, state, event)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
