-- Which ledger decides about a sale, and which one a server has: several ledgers beside
-- one store must not take the sales from each other. Empty: written by a server that
-- writes no names. Each step is skipped if it was made before: DDL commits by itself.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sales' AND column_name = 'ledger') = 0,
    'ALTER TABLE sales ADD COLUMN ledger VARCHAR(255) NOT NULL DEFAULT ''''', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'nodes' AND column_name = 'ledger') = 0,
    'ALTER TABLE nodes ADD COLUMN ledger VARCHAR(255) NOT NULL DEFAULT ''''', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
