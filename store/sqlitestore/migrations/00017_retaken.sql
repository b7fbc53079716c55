-- An expired order that was paid too late, and for which its units were taken again: it
-- is retaken, and its reason is the id of the order that is paid in its place.
-- SQLite changes the text of tables for that, as in 00014; a table that comes and goes
-- has other connections read the schema again.

-- +goose Up
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''refunded'', ''refund_due'')', '''refunded'', ''refund_due'', ''retaken'')')
WHERE type = 'table' AND name = 'orders';
UPDATE sqlite_schema SET sql = replace(sql, ' ''refund_due refunded'')', ' ''refund_due refunded'', ''expired retaken'')')
WHERE type = 'table' AND name = 'order_changes';
PRAGMA writable_schema = RESET;
CREATE TABLE schema_change (n INTEGER);
DROP TABLE schema_change;
