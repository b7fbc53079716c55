-- Totals that change while a sale runs, sales that are archived, dead letters
-- that are dealt with, and servers that know of each other.
--
-- Each statement is a transaction of its own. So that a migration which was cut
-- off can be run again, each looks whether it has been done; MySQL has no ADD
-- COLUMN IF NOT EXISTS.

-- +goose Up
-- cap is total, or more while a lowered total has not reached the ledger.
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sales' AND column_name = 'cap') = 0,
    'ALTER TABLE sales ADD COLUMN cap BIGINT AFTER taken, ADD COLUMN archived_at DATETIME(3), DROP CONSTRAINT sales_no_oversell', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

UPDATE sales SET cap = total WHERE cap IS NULL;

-- I1, whatever the ledger says.
SET @step = if((SELECT count(*) FROM information_schema.table_constraints
    WHERE table_schema = database() AND table_name = 'sales' AND constraint_name = 'sales_no_oversell') = 0,
    'ALTER TABLE sales ADD CONSTRAINT sales_no_oversell CHECK (cap IS NULL OR taken <= cap), ADD CONSTRAINT sales_cap CHECK ((cap IS NULL) = (total IS NULL) AND (cap IS NULL OR cap >= total))', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- Changes of totals, each once. terms_version is the one that it made. There is
-- no foreign key: the row of the sale is locked by the transaction that writes.
CREATE TABLE IF NOT EXISTS restocks (
    sale_id       VARBINARY(48)  NOT NULL,
    restock_id    VARBINARY(255) NOT NULL,
    delta         BIGINT         NOT NULL CHECK (delta <> 0),
    terms_version BIGINT         NOT NULL CHECK (terms_version >= 2),
    created_at    DATETIME(3)    NOT NULL,

    PRIMARY KEY (sale_id, restock_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'dead_letters' AND column_name = 'resolved_at') = 0,
    'ALTER TABLE dead_letters ADD COLUMN resolved_at DATETIME(3), ADD COLUMN resolution VARCHAR(1024) NOT NULL DEFAULT '''', ADD INDEX dead_letters_open (resolved_at, sale_id)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- What one server at a time does. A row stays when nobody holds it.
CREATE TABLE IF NOT EXISTS leases (
    name       VARBINARY(255) NOT NULL PRIMARY KEY,
    holder     VARBINARY(255) NOT NULL,
    expires_at DATETIME(3)    NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- When each server was last heard of.
CREATE TABLE IF NOT EXISTS nodes (
    node    VARBINARY(255) NOT NULL PRIMARY KEY,
    seen_at DATETIME(3)    NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Servers that have stored what they remember of a sale that is rebuilt.
CREATE TABLE IF NOT EXISTS gathered (
    sale_id     VARBINARY(48)  NOT NULL,
    epoch       BIGINT         NOT NULL,
    node        VARBINARY(255) NOT NULL,
    gathered_at DATETIME(3)    NOT NULL,

    PRIMARY KEY (sale_id, epoch, node)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
