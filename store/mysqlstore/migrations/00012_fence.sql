-- The number of a lease's holder, higher than that of each holder before (lock.Backend),
-- and how many milliseconds its lease was taken for.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'leases' AND column_name = 'fence') = 0,
    'ALTER TABLE leases ADD COLUMN fence BIGINT NOT NULL DEFAULT 0, ADD COLUMN ttl BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
