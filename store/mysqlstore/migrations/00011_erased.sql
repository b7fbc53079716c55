-- Sales whose buyers are erased, and which are yet to be: few rows, also where
-- there are many orders. Each step is skipped if it was made before: DDL commits
-- by itself.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sales' AND column_name = 'erased_at') = 0,
    'ALTER TABLE sales ADD COLUMN erased_at DATETIME(3)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = if((SELECT count(*) FROM information_schema.statistics
    WHERE table_schema = database() AND table_name = 'sales' AND index_name = 'sales_to_erase') = 0,
    'ALTER TABLE sales ADD INDEX sales_to_erase (erased_at, id, archived_at)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
