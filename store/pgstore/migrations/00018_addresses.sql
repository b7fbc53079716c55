-- How many live orders the claims of one network may have at a sale, and which network
-- that was, as a keyed hash: only of sales that have the limit, until they are archived.

-- +goose Up
SET LOCAL lock_timeout = '200ms';
ALTER TABLE sales ADD COLUMN max_live_per_address bigint CHECK (max_live_per_address >= 1);
ALTER TABLE sale_terms ADD COLUMN max_live_per_address bigint CHECK (max_live_per_address >= 1);
ALTER TABLE ledger_sales ADD COLUMN max_live_per_address bigint CHECK (max_live_per_address >= 1);
CREATE TABLE order_addresses (
    order_id text COLLATE "C" PRIMARY KEY,
    sale_id  text COLLATE "C" NOT NULL,
    address  text COLLATE "C" NOT NULL
);
CREATE INDEX order_addresses_of_sale ON order_addresses (sale_id, address);
