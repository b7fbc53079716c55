-- Which ledger decides about a sale, and which one a server has: several ledgers beside
-- one store must not take the sales from each other. Empty: written by a server that
-- writes no names.

-- +goose Up
SET LOCAL lock_timeout = '200ms';
ALTER TABLE sales ADD COLUMN ledger text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN ledger text NOT NULL DEFAULT '';
