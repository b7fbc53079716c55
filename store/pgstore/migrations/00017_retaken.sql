-- An expired order that was paid too late, and for which its units were taken again: it
-- is retaken, and its reason is the id of the order that is paid in its place.
-- The rows that are there satisfy more than the new checks: they need not be read.

-- +goose Up
SET LOCAL lock_timeout = '200ms';
ALTER TABLE orders DROP CONSTRAINT orders_status_check;
ALTER TABLE orders ADD CONSTRAINT orders_status_check CHECK (status IN
    ('pending', 'paid', 'rejected', 'cancelled', 'expired', 'refunded', 'refund_due', 'retaken')) NOT VALID;
ALTER TABLE order_changes DROP CONSTRAINT order_changes_step;
ALTER TABLE order_changes ADD CONSTRAINT order_changes_step
    CHECK (refused <> '' OR from_status || ' ' || to_status IN (
        'pending paid', 'pending cancelled', 'pending expired', 'pending rejected', 'paid refunded',
        'cancelled refund_due', 'expired refund_due', 'rejected refund_due', 'refund_due refunded',
        'expired retaken')) NOT VALID;
