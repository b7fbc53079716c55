-- What a sale asks of its buyers before the ledger is asked: one JSON object.

-- +goose Up
ALTER TABLE sales ADD COLUMN rules jsonb NOT NULL DEFAULT '{}';
