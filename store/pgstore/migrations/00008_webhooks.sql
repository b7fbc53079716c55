-- Webhooks, and the events that have not reached them.

-- +goose Up
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
