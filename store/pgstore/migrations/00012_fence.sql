-- The number of a lease's holder, higher than that of each holder before (lock.Backend).

-- +goose Up
ALTER TABLE leases ADD COLUMN fence bigint NOT NULL DEFAULT 0;
