-- What admins did, or tried to do. Rows are added and never changed; what nobody
-- needs any more may be deleted by hand, the oldest first.

-- +goose Up
CREATE TABLE IF NOT EXISTS admin_actions (
    id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    acted_at   DATETIME(3)  NOT NULL, -- the store's clock
    actor      VARCHAR(255) NOT NULL,
    route      VARCHAR(255) NOT NULL,
    path       VARCHAR(255) NOT NULL,
    sale_id    VARCHAR(255) NOT NULL, -- as it was asked for, which may be no id
    order_id   VARCHAR(255) NOT NULL,
    status     INT          NOT NULL,
    code       VARCHAR(255) NOT NULL,
    request_id VARCHAR(255) NOT NULL,
    address    VARCHAR(255) NOT NULL,
    node       VARCHAR(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
