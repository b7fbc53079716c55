-- How many live orders the claims of one network may have at a sale, and which network
-- that was, as a keyed hash: only of sales that have the limit, until they are archived.
-- Each step is skipped if it was made before: DDL commits by itself.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sales' AND column_name = 'max_live_per_address') = 0,
    'ALTER TABLE sales ADD COLUMN max_live_per_address BIGINT CHECK (max_live_per_address >= 1)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sale_terms' AND column_name = 'max_live_per_address') = 0,
    'ALTER TABLE sale_terms ADD COLUMN max_live_per_address BIGINT CHECK (max_live_per_address >= 1)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

CREATE TABLE IF NOT EXISTS order_addresses (
    order_id VARBINARY(81) NOT NULL PRIMARY KEY,
    sale_id  VARBINARY(48) NOT NULL,
    address  VARBINARY(16) NOT NULL,

    INDEX order_addresses_of_sale (sale_id, address)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
