-- Sales whose buyers are erased, and which are yet to be: few rows, also where
-- there are many orders.

-- +goose Up
SET LOCAL lock_timeout = '200ms';
ALTER TABLE sales ADD COLUMN erased_at timestamptz(3);
CREATE INDEX sales_to_erase ON sales (id) WHERE erased_at IS NULL AND archived_at IS NOT NULL;
