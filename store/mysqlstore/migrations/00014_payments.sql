-- Which order has a payment: one at most, over all servers. What an older version
-- recorded is not in it, and may be there twice. An order of any status may refuse a
-- payment: of another amount, or that another order has.
-- The check of what is refused goes: to add another one would read all rows. Which way
-- to drop it is the database's choice; each takes the cheapest that it has. Each step
-- is skipped if it was made before: DDL commits by itself.

-- +goose Up
CREATE TABLE IF NOT EXISTS payments (
    payment_id VARBINARY(128) NOT NULL PRIMARY KEY,
    order_id   VARBINARY(81)  NOT NULL,

    CONSTRAINT payments_order_id UNIQUE (order_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

SET @step = if((SELECT count(*) FROM information_schema.table_constraints
    WHERE table_schema = database() AND table_name = 'order_changes' AND constraint_name = 'order_changes_refused') > 0,
    'ALTER TABLE order_changes DROP CONSTRAINT order_changes_refused', 'DO 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
