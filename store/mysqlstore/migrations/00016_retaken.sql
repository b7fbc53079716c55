-- An expired order that was paid too late, and for which its units were taken again: it
-- is retaken, and its reason is the id of the order that is paid in its place.
-- The checks of statuses and steps go: to add others would read all rows. That of the
-- status is one of the column in MariaDB, and in MySQL one of the table without a name of
-- ours. Each step is skipped if it was made before: DDL commits by itself.

-- +goose Up
SET @step = if((SELECT count(*) FROM information_schema.table_constraints
    WHERE table_schema = database() AND table_name = 'order_changes' AND constraint_name = 'order_changes_step') > 0,
    'ALTER TABLE order_changes DROP CONSTRAINT order_changes_step', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @check = (SELECT c.constraint_name FROM information_schema.check_constraints c
    JOIN information_schema.table_constraints t
        ON t.constraint_schema = c.constraint_schema AND t.constraint_name = c.constraint_name
    WHERE t.table_schema = database() AND t.table_name = 'orders' AND c.check_clause LIKE '%refund_due%' LIMIT 1);
SET @step = CASE
    WHEN @check IS NULL THEN 'DO 0'
    WHEN @check = 'status' THEN 'ALTER TABLE orders MODIFY status VARBINARY(16) NOT NULL, ALGORITHM=INSTANT'
    ELSE replace('ALTER TABLE orders DROP CONSTRAINT of_status', 'of_status', @check)
END;
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
