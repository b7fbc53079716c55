-- Which order has a payment: one at most, over all servers. What an older version
-- recorded is not in it, and may be there twice. An order of any status may refuse a
-- payment: of another amount, or that another order has.
-- SQLite changes a table's text for that, as in 00014; the new table has other
-- connections read the schema again.

-- +goose Up
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, ' AND to_status IN (''paid'', ''refund_due'', ''refunded'') AND payment_id', ' AND payment_id')
WHERE type = 'table' AND name = 'order_changes';
PRAGMA writable_schema = RESET;
CREATE TABLE payments (
    payment_id TEXT NOT NULL PRIMARY KEY,
    order_id   TEXT NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;
