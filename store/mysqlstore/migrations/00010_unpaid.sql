-- Orders that ended unpaid, by expiry or by their buyer's own cancel, and how
-- many of one buyer a sale bears. Sales and endings from before have no such
-- limit and no such mark: what was promised or ended then stays as it was.
-- Each step is skipped if it was made before: DDL commits by itself.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sales' AND column_name = 'max_unpaid') = 0,
    'ALTER TABLE sales ADD COLUMN max_unpaid BIGINT CHECK (max_unpaid >= 1)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sale_terms' AND column_name = 'max_unpaid') = 0,
    'ALTER TABLE sale_terms ADD COLUMN max_unpaid BIGINT CHECK (max_unpaid >= 1)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'orders' AND column_name = 'unpaid') = 0,
    'ALTER TABLE orders ADD COLUMN unpaid BOOLEAN NOT NULL DEFAULT FALSE', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'releases' AND column_name = 'unpaid') = 0,
    'ALTER TABLE releases ADD COLUMN unpaid BOOLEAN NOT NULL DEFAULT FALSE', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
