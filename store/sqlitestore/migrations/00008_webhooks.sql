-- Webhooks, and the events that have not reached them.

-- +goose Up
CREATE TABLE webhooks (
    position     INTEGER NOT NULL PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    url          TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    secret       TEXT    NOT NULL,
    types        TEXT    NOT NULL, -- separated by blanks; empty: all
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    disabled_at  INTEGER,
    disabled_why TEXT    NOT NULL,

    last_event   INTEGER NOT NULL CHECK (last_event >= 0), -- delivered up to here, or kept below
    delivered    INTEGER NOT NULL,
    failures     INTEGER NOT NULL CHECK (failures >= 0),
    retry_at     INTEGER,
    last_success INTEGER,
    last_failure INTEGER,
    last_error   TEXT    NOT NULL
) STRICT;

CREATE TABLE webhook_deliveries (
    webhook_id  TEXT    NOT NULL REFERENCES webhooks (id),
    event       INTEGER NOT NULL,
    subject     TEXT    NOT NULL, -- an order, or a sale
    state       TEXT    NOT NULL CHECK (state IN ('pending', 'failed')),
    attempts    INTEGER NOT NULL CHECK (attempts >= 0),
    next_at     INTEGER NOT NULL,
    last_status INTEGER NOT NULL,
    last_error  TEXT    NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (webhook_id, event)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, state, next_at);
CREATE INDEX webhook_deliveries_subject ON webhook_deliveries (webhook_id, subject, state, event);
