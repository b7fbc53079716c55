-- What a sale asks of its buyers before the ledger is asked: one JSON object.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.columns
    WHERE table_schema = database() AND table_name = 'sales' AND column_name = 'rules') = 0,
    'ALTER TABLE sales ADD COLUMN rules JSON NOT NULL DEFAULT (''{}'')', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
