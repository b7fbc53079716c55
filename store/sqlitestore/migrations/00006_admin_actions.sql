-- What admins did, or tried to do. Rows are added and never changed; what nobody
-- needs any more may be deleted by hand, the oldest first.

-- +goose Up
CREATE TABLE admin_actions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    acted_at   INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    route      TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    sale_id    TEXT    NOT NULL,
    order_id   TEXT    NOT NULL,
    status     INTEGER NOT NULL,
    code       TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    node       TEXT    NOT NULL
) STRICT;
