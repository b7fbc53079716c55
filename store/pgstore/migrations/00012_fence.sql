-- The number of a lease's holder, higher than that of each holder before (lock.Backend),
-- and how many milliseconds its lease was taken for.

-- +goose Up
SET LOCAL lock_timeout = '200ms';
ALTER TABLE leases ADD COLUMN fence bigint NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN ttl bigint NOT NULL DEFAULT 0;
