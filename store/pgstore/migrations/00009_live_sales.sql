-- The sales that are not archived are read all the time, by every server.

-- +goose Up
CREATE INDEX sales_live ON sales (id) WHERE archived_at IS NULL;
