-- What admins did, or tried to do. Rows are added and never changed; what nobody
-- needs any more may be deleted by hand, the oldest first.

-- +goose Up
CREATE TABLE admin_actions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    acted_at   timestamptz(3)   NOT NULL, -- the store's clock
    actor      text             NOT NULL,
    route      text             NOT NULL,
    path       text             NOT NULL,
    sale_id    text COLLATE "C" NOT NULL,
    order_id   text COLLATE "C" NOT NULL,
    status     integer          NOT NULL,
    code       text COLLATE "C" NOT NULL,
    request_id text             NOT NULL,
    address    text             NOT NULL,
    node       text             NOT NULL
);
