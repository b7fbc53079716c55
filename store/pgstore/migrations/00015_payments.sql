-- Which order has a payment: one at most, over all servers. What an older version
-- recorded is not in it, and may be there twice. An order of any status may refuse a
-- payment: of another amount, or that another order has.
-- The rows that are there satisfy more than the new check: it need not read them.

-- +goose Up
SET LOCAL lock_timeout = '200ms';
CREATE TABLE payments (
    payment_id text COLLATE "C" PRIMARY KEY,
    order_id   text COLLATE "C" NOT NULL UNIQUE
);
ALTER TABLE order_changes DROP CONSTRAINT order_changes_refused;
ALTER TABLE order_changes ADD CONSTRAINT order_changes_refused
    CHECK (length(refused) = 0 OR from_status = to_status AND length(payment_id) = 0) NOT VALID;
