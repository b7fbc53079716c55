-- The sales that are not archived are read all the time, by every server.
--
-- Each statement is a transaction of its own. So that a migration which was cut
-- off can be run again, it looks whether it has been done.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.statistics
    WHERE table_schema = database() AND table_name = 'sales' AND index_name = 'sales_live') = 0,
    'ALTER TABLE sales ADD INDEX sales_live (archived_at, id)', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
