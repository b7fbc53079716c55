-- Orders that ended unpaid, by expiry or by their buyer's own cancel, and how
-- many of one buyer a sale bears. Sales and endings from before have no such
-- limit and no such mark: what was promised or ended then stays as it was.

-- +goose Up
ALTER TABLE sales ADD COLUMN max_unpaid bigint CHECK (max_unpaid >= 1);
ALTER TABLE sale_terms ADD COLUMN max_unpaid bigint CHECK (max_unpaid >= 1);
ALTER TABLE orders ADD COLUMN unpaid boolean NOT NULL DEFAULT false;
ALTER TABLE releases ADD COLUMN unpaid boolean NOT NULL DEFAULT false;
