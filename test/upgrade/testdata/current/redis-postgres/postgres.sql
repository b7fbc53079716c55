SELECT pg_catalog.set_config('search_path', '', false);
CREATE FUNCTION sluice_fixture.ledger_promised(sale text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (SELECT coalesce(sum(p.quantity), 0)::bigint FROM ledger_promises p
        WHERE p.sale_id = sale COLLATE "C" AND NOT EXISTS (SELECT FROM orders o WHERE o.order_id = p.order_id));
END
$$;
CREATE FUNCTION sluice_fixture.ledger_sales_checked() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE wrong text := CASE
    WHEN NEW.epoch < 1 THEN 'epoch < 1'
    WHEN NEW.version < 1 THEN 'version < 1'
    WHEN NEW.total < 0 THEN 'total < 0'
    WHEN NEW.max_per_buyer < 1 THEN 'max_per_buyer < 1'
    WHEN NEW.max_orders < 1 THEN 'max_orders < 1'
    WHEN NEW.max_unpaid < 1 THEN 'max_unpaid < 1'
    WHEN NEW.closes_at <= NEW.opens_at THEN 'closes_at <= opens_at'
    WHEN NEW.promised < 0 THEN 'promised < 0'
END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE check_violation USING MESSAGE = format('row of ledger_sales %L: %s', NEW.sale_id, wrong),
            TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_fixture.ledger_units_returned() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'sluice_fixture'
    AS $$
BEGIN
    UPDATE ledger_sales SET reopened = 9 -- sluice.SoldOut
    WHERE sale_id = NEW.id AND epoch = NEW.epoch AND reopened <> 9 AND OLD.taken + promised >= total
        AND (promised = 0 OR OLD.taken + ledger_promised(NEW.id) >= total);
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_fixture.sales_checked() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE wrong text := CASE
    WHEN NEW.id = '' THEN 'the id is empty'
    WHEN NEW.price_amount < 0 THEN 'price_amount < 0'
    WHEN length(NEW.price_currency) <> 3 THEN 'price_currency has not 3 letters'
    WHEN NEW.list_price_amount < 0 THEN 'list_price_amount < 0'
    WHEN (NEW.list_price_amount IS NULL) <> (NEW.list_price_currency IS NULL) THEN 'half a list_price'
    WHEN NEW.list_price_currency <> NEW.price_currency THEN 'list_price_currency is another one'
    WHEN NEW.free AND NEW.price_amount <> 0 THEN 'free, with a price'
    WHEN NEW.payment_window_ms <= 0 THEN 'payment_window_ms <= 0'
    WHEN NEW.payment_grace_ms < 0 THEN 'payment_grace_ms < 0'
    WHEN NEW.terms_version < 1 THEN 'terms_version < 1'
    WHEN NEW.total < 0 THEN 'total < 0'
    WHEN (NEW.cap IS NULL) <> (NEW.total IS NULL) OR NEW.cap < NEW.total THEN 'cap does not cover total'
    WHEN NEW.max_per_buyer < 1 THEN 'max_per_buyer < 1'
    WHEN NEW.max_orders < 1 THEN 'max_orders < 1'
    WHEN NEW.max_unpaid < 1 THEN 'max_unpaid < 1'
    WHEN NEW.closes_at <= NEW.opens_at THEN 'closes_at <= opens_at'
    WHEN NEW.epoch < 0 THEN 'epoch < 0'
    WHEN NEW.loaded_epoch NOT BETWEEN 0 AND NEW.epoch THEN 'loaded_epoch is not one of 0 to epoch'
END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE check_violation USING MESSAGE = format('row of sales %L: %s', NEW.id, wrong), TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
CREATE TABLE sluice_fixture.admin_actions (
    id bigint NOT NULL,
    acted_at timestamp(3) with time zone NOT NULL,
    actor text NOT NULL,
    route text NOT NULL,
    path text NOT NULL,
    sale_id text NOT NULL COLLATE pg_catalog."C",
    order_id text NOT NULL COLLATE pg_catalog."C",
    status integer NOT NULL,
    code text NOT NULL COLLATE pg_catalog."C",
    request_id text NOT NULL,
    address text NOT NULL,
    node text NOT NULL
);
ALTER TABLE sluice_fixture.admin_actions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.admin_actions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.dead_letters (
    id bigint NOT NULL,
    sale_id text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    entry_id text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL,
    claims bytea NOT NULL,
    first_seq bigint NOT NULL,
    terms bigint NOT NULL,
    node text NOT NULL,
    accepted_at timestamp(3) with time zone,
    created_at timestamp(3) with time zone NOT NULL,
    resolved_at timestamp(3) with time zone,
    resolution text DEFAULT ''::text NOT NULL
);
ALTER TABLE sluice_fixture.dead_letters ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.dead_letters_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.event_feed (
    id bigint NOT NULL,
    first_event bigint DEFAULT 1 NOT NULL,
    last_event bigint NOT NULL,
    CONSTRAINT event_feed_first_event_check CHECK ((first_event >= 1)),
    CONSTRAINT event_feed_id_check CHECK ((id = 1)),
    CONSTRAINT event_feed_last_event_check CHECK ((last_event >= 0))
)
WITH (fillfactor='50');
CREATE TABLE sluice_fixture.gathered (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    node text NOT NULL COLLATE pg_catalog."C",
    gathered_at timestamp(3) with time zone NOT NULL
);
CREATE TABLE sluice_fixture.leases (
    name text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    fence bigint DEFAULT 0 NOT NULL,
    ttl bigint DEFAULT 0 NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL
);
CREATE TABLE sluice_fixture.ledger_promises (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    buyer_id text NOT NULL COLLATE pg_catalog."C",
    claim_key text NOT NULL COLLATE pg_catalog."C",
    order_id text NOT NULL COLLATE pg_catalog."C",
    quantity bigint NOT NULL,
    meta text NOT NULL,
    counters text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    seq bigint NOT NULL,
    terms bigint NOT NULL,
    accepted_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT ledger_promises_quantity_check CHECK ((quantity >= 1))
);
CREATE UNLOGGED TABLE sluice_fixture.ledger_rates (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    who text NOT NULL COLLATE pg_catalog."C",
    paid bigint NOT NULL
);
CREATE TABLE sluice_fixture.ledger_sales (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    seq bigint NOT NULL,
    version bigint NOT NULL,
    total bigint,
    max_per_buyer bigint,
    max_orders bigint,
    max_unpaid bigint,
    opens_at timestamp(3) with time zone NOT NULL,
    closes_at timestamp(3) with time zone,
    paused boolean NOT NULL,
    fence text NOT NULL,
    cooldown smallint DEFAULT 0 NOT NULL,
    cooldown_until timestamp(3) with time zone,
    reopened smallint DEFAULT 0 NOT NULL,
    promised bigint NOT NULL,
    CONSTRAINT ledger_sales_seq_check CHECK ((seq >= 0))
)
WITH (fillfactor='50');
CREATE TABLE sluice_fixture.nodes (
    node text NOT NULL COLLATE pg_catalog."C",
    ledger text DEFAULT ''::text NOT NULL,
    about text DEFAULT '{}'::text NOT NULL,
    seen_at timestamp(3) with time zone NOT NULL
);
CREATE TABLE sluice_fixture.order_changes (
    "position" bigint NOT NULL,
    order_id text NOT NULL COLLATE pg_catalog."C",
    changed_at timestamp(3) with time zone NOT NULL,
    from_status text NOT NULL COLLATE pg_catalog."C",
    to_status text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    changed_by text NOT NULL,
    reason text NOT NULL,
    payment_id text NOT NULL COLLATE pg_catalog."C",
    refused text NOT NULL COLLATE pg_catalog."C",
    event bigint,
    CONSTRAINT order_changes_refused CHECK (((refused = ''::text) OR ((from_status = to_status) AND (payment_id = ''::text)))),
    CONSTRAINT order_changes_step CHECK (((refused <> ''::text) OR (((from_status || ' '::text) || to_status) = ANY (ARRAY['pending paid'::text, 'pending cancelled'::text, 'pending expired'::text, 'pending rejected'::text, 'paid refunded'::text, 'paid refund_due'::text, 'cancelled refund_due'::text, 'expired refund_due'::text, 'rejected refund_due'::text, 'refund_due refunded'::text]))))
);
ALTER TABLE sluice_fixture.order_changes ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.order_changes_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.order_events (
    "position" bigint NOT NULL,
    sale_id text NOT NULL COLLATE pg_catalog."C",
    after_position bigint NOT NULL,
    upto_position bigint NOT NULL,
    orders bigint NOT NULL,
    stored_at timestamp(3) with time zone NOT NULL,
    event bigint,
    CONSTRAINT order_events_check CHECK ((upto_position > after_position)),
    CONSTRAINT order_events_orders_check CHECK ((orders >= 1))
);
ALTER TABLE sluice_fixture.order_events ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.order_events_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.orders (
    "position" bigint NOT NULL,
    order_id text NOT NULL COLLATE pg_catalog."C",
    sale_id text NOT NULL COLLATE pg_catalog."C",
    buyer_id text NOT NULL COLLATE pg_catalog."C",
    claim_key text NOT NULL COLLATE pg_catalog."C",
    quantity bigint NOT NULL,
    meta text NOT NULL,
    counters text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    price_amount bigint NOT NULL,
    currency text NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL,
    epoch bigint NOT NULL,
    bucket bigint DEFAULT 0 NOT NULL,
    seq bigint NOT NULL,
    terms bigint NOT NULL,
    node text NOT NULL,
    accepted_at timestamp(3) with time zone NOT NULL,
    stored_at timestamp(3) with time zone NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL,
    keep_until timestamp(3) with time zone NOT NULL,
    updated_at timestamp(3) with time zone NOT NULL,
    payment_id text DEFAULT ''::text NOT NULL,
    unpaid boolean DEFAULT false NOT NULL,
    CONSTRAINT orders_check CHECK ((expires_at > stored_at)),
    CONSTRAINT orders_check1 CHECK ((keep_until >= expires_at)),
    CONSTRAINT orders_check2 CHECK ((updated_at >= stored_at)),
    CONSTRAINT orders_epoch_check CHECK ((epoch >= 1)),
    CONSTRAINT orders_price_amount_check CHECK ((price_amount >= 0)),
    CONSTRAINT orders_quantity_check CHECK ((quantity >= 1)),
    CONSTRAINT orders_seq_check CHECK ((seq >= 1)),
    CONSTRAINT orders_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'paid'::text, 'rejected'::text, 'cancelled'::text, 'expired'::text, 'refunded'::text, 'refund_due'::text]))),
    CONSTRAINT orders_terms_check CHECK ((terms >= 1))
);
ALTER TABLE sluice_fixture.orders ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.orders_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.payments (
    payment_id text NOT NULL COLLATE pg_catalog."C",
    order_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE sluice_fixture.pictures (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    jpeg bytea NOT NULL,
    CONSTRAINT pictures_size_check CHECK ((size > 0))
);
CREATE TABLE sluice_fixture.releases (
    order_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    sale_id text NOT NULL COLLATE pg_catalog."C",
    buyer_id text NOT NULL COLLATE pg_catalog."C",
    claim_key text NOT NULL COLLATE pg_catalog."C",
    quantity bigint NOT NULL,
    unpaid boolean DEFAULT false NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT releases_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT releases_quantity_check CHECK ((quantity >= 1))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
ALTER TABLE sluice_fixture.releases ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.releases_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.restocks (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    restock_id text NOT NULL COLLATE pg_catalog."C",
    delta bigint NOT NULL,
    terms_version bigint NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT restocks_delta_check CHECK ((delta <> 0)),
    CONSTRAINT restocks_terms_version_check CHECK ((terms_version >= 2))
);
CREATE TABLE sluice_fixture.sale_buyers (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    generation bigint NOT NULL,
    buyer_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE sluice_fixture.sale_events (
    "position" bigint NOT NULL,
    sale_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp(3) with time zone NOT NULL,
    sale text NOT NULL,
    event bigint
);
ALTER TABLE sluice_fixture.sale_events ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.sale_events_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.sale_lists (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    generation bigint DEFAULT 0 NOT NULL,
    last_generation bigint DEFAULT 0 NOT NULL,
    size bigint DEFAULT 0 NOT NULL,
    updated_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT sale_lists_check CHECK (((generation >= 0) AND (generation <= last_generation))),
    CONSTRAINT sale_lists_kind_check CHECK ((kind = ANY (ARRAY['allow'::text, 'deny'::text]))),
    CONSTRAINT sale_lists_size_check CHECK ((size >= 0))
);
CREATE TABLE sluice_fixture.sale_terms (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    total bigint,
    max_per_buyer bigint,
    max_orders bigint,
    max_unpaid bigint,
    opens_at timestamp(3) with time zone NOT NULL,
    closes_at timestamp(3) with time zone,
    paused boolean NOT NULL,
    changed_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT sale_terms_check CHECK ((closes_at > opens_at)),
    CONSTRAINT sale_terms_max_orders_check CHECK ((max_orders >= 1)),
    CONSTRAINT sale_terms_max_per_buyer_check CHECK ((max_per_buyer >= 1)),
    CONSTRAINT sale_terms_max_unpaid_check CHECK ((max_unpaid >= 1)),
    CONSTRAINT sale_terms_total_check CHECK ((total >= 0)),
    CONSTRAINT sale_terms_version_check CHECK ((version >= 1))
);
CREATE TABLE sluice_fixture.sales (
    id text NOT NULL COLLATE pg_catalog."C",
    sku text NOT NULL,
    title text NOT NULL,
    price_amount bigint NOT NULL,
    price_currency text NOT NULL,
    list_price_amount bigint,
    list_price_currency text,
    free boolean NOT NULL,
    payment_window_ms bigint NOT NULL,
    payment_grace_ms bigint NOT NULL,
    rules jsonb DEFAULT '{}'::jsonb NOT NULL,
    showcase text DEFAULT '{}'::text NOT NULL,
    terms_version bigint NOT NULL,
    total bigint,
    max_per_buyer bigint,
    max_orders bigint,
    max_unpaid bigint,
    opens_at timestamp(3) with time zone NOT NULL,
    closes_at timestamp(3) with time zone,
    paused boolean NOT NULL,
    ledger text DEFAULT ''::text NOT NULL,
    epoch bigint NOT NULL,
    loaded_epoch bigint NOT NULL,
    fence text NOT NULL,
    taken bigint NOT NULL,
    cap bigint,
    created_at timestamp(3) with time zone NOT NULL,
    updated_at timestamp(3) with time zone NOT NULL,
    archived_at timestamp(3) with time zone,
    erased_at timestamp(3) with time zone,
    purged_at timestamp(3) with time zone,
    remains text,
    CONSTRAINT no_oversell CHECK (((cap IS NULL) OR (taken <= cap))),
    CONSTRAINT sales_taken_check CHECK ((taken >= 0))
)
WITH (fillfactor='50');
CREATE TABLE sluice_fixture.sluice_schema (
    id integer NOT NULL,
    version_id bigint NOT NULL,
    is_applied boolean NOT NULL,
    tstamp timestamp without time zone DEFAULT now() NOT NULL
);
ALTER TABLE sluice_fixture.sluice_schema ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME sluice_fixture.sluice_schema_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice_fixture.stretches (
    sale_id text NOT NULL COLLATE pg_catalog."C",
    begun_at timestamp(3) with time zone NOT NULL,
    node text NOT NULL COLLATE pg_catalog."C",
    ended boolean NOT NULL,
    figures bytea NOT NULL
);
CREATE TABLE sluice_fixture.webhook_deliveries (
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    event bigint NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    attempts bigint NOT NULL,
    next_at timestamp(3) with time zone NOT NULL,
    last_status bigint NOT NULL,
    last_error text NOT NULL,
    updated_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT webhook_deliveries_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'failed'::text])))
);
CREATE TABLE sluice_fixture.webhooks (
    id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    url text NOT NULL,
    description text NOT NULL,
    secret text NOT NULL,
    types text NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    updated_at timestamp(3) with time zone NOT NULL,
    disabled_at timestamp(3) with time zone,
    disabled_why text NOT NULL,
    last_event bigint NOT NULL,
    delivered bigint NOT NULL,
    failures bigint NOT NULL,
    retry_at timestamp(3) with time zone,
    last_success timestamp(3) with time zone,
    last_failure timestamp(3) with time zone,
    last_error text NOT NULL,
    CONSTRAINT webhooks_failures_check CHECK ((failures >= 0)),
    CONSTRAINT webhooks_last_event_check CHECK ((last_event >= 0))
)
WITH (fillfactor='50');
ALTER TABLE sluice_fixture.webhooks ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice_fixture.webhooks_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (1, '2026-11-30 19:30:18.824+08', 'admin', 'POST /v1/admin/sales', '/v1/admin/sales', 'lamps', '', 201, '', 'FFRUJ52VMXOXXR4S', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (2, '2026-11-30 19:30:18.839+08', 'admin', 'POST /v1/admin/sales', '/v1/admin/sales', 'phones', '', 201, '', 'TZOYBV7MCLZESG6E', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (3, '2026-11-30 19:30:18.847+08', 'admin', 'PUT /v1/admin/sales/{sale}/lists/{list}', '/v1/admin/sales/phones/lists/deny', 'phones', '', 200, '', 'EKXCKHYXN3GQXCFC', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (4, '2026-11-30 19:30:18.849+08', 'admin', 'POST /v1/admin/webhooks', '/v1/admin/webhooks', '', '', 201, '', 'Z7RWTT4YUU4A7BWW', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (5, '2026-11-30 19:30:18.938+08', 'admin', 'POST /v1/admin/orders/{order}/pay', '/v1/admin/orders/phones.01a22c38549e7898a96bb98710ec626b/pay', 'phones', 'phones.01a22c38549e7898a96bb98710ec626b', 200, '', '2LNWJAPX6J2FMMRW', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (6, '2026-11-30 19:30:18.966+08', 'admin', 'POST /v1/admin/orders/{order}/pay', '/v1/admin/orders/phones.01a22c3854bb7ed78b40b171681eb116/pay', 'phones', 'phones.01a22c3854bb7ed78b40b171681eb116', 200, '', 'PNVWGHBCMO3GAMZV', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (7, '2026-11-30 19:30:18.969+08', 'admin', 'POST /v1/admin/orders/{order}/refund', '/v1/admin/orders/phones.01a22c3854bb7ed78b40b171681eb116/refund', 'phones', 'phones.01a22c3854bb7ed78b40b171681eb116', 200, '', 'EZDK34WXQCS6OJLL', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (8, '2026-11-30 19:30:19.005+08', 'admin', 'POST /v1/admin/orders/{order}/pay', '/v1/admin/orders/phones.01a22c3854da78839024adae55584f99/pay', 'phones', 'phones.01a22c3854da78839024adae55584f99', 200, '', 'DCZPX52S76CTFBEE', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.admin_actions OVERRIDING SYSTEM VALUE VALUES (9, '2026-11-30 19:30:19.032+08', 'admin', 'POST /v1/admin/orders/{order}/reject', '/v1/admin/orders/phones.01a22c3854fe7cc3a16484c51c55fe73/reject', 'phones', 'phones.01a22c3854fe7cc3a16484c51c55fe73', 200, '', 'GVZVC3NN7RSZDO7Y', '127.0.0.1', '34qxmnwm');
INSERT INTO sluice_fixture.dead_letters OVERRIDING SYSTEM VALUE VALUES (1, 'phones', 1, 'entry', 'of the fixture', '\x6e6f6e73656e7365', 0, 1, 'node', NULL, '2026-11-30 19:30:20.336+08', NULL, '');
INSERT INTO sluice_fixture.event_feed VALUES (1, 1, 19);
INSERT INTO sluice_fixture.leases VALUES ('tidy', '34qxmnwm', 1796038218814000, 3540000, '2026-11-30 20:29:18.814+08');
INSERT INTO sluice_fixture.leases VALUES ('reconcile', '', 1796038219779000, 2000, '2026-11-30 19:30:21.779+08');
INSERT INTO sluice_fixture.leases VALUES ('events', '', 1796038218809000, 3000, '2026-11-30 19:30:23.076+08');
INSERT INTO sluice_fixture.leases VALUES ('webhooks', '', 1796038218810000, 20000, '2026-11-30 19:30:38.81+08');
INSERT INTO sluice_fixture.nodes VALUES ('34qxmnwm', 'redis:7piad6008inubrmjtt6e', '{"version":"","shared":{"admin_key":"11432379","admin_keys":"none","buyer_audience":"none","buyer_id":"2fef003f","buyer_issuer":"none","buyer_jwks":"none","buyer_secret":"a9a7385a","ticket_secret":"4b41b10e","webhook_key":"4cb6fa41"},"left":true}', '2026-11-30 19:30:20.321+08');
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (1, 'phones.01a22c3854807694b4d2e9cab76828a1', '2026-11-30 19:30:18.906+08', 'pending', 'cancelled', 'cancel', 'buyer', '', '', '', 7);
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (2, 'phones.01a22c38549e7898a96bb98710ec626b', '2026-11-30 19:30:18.936+08', 'pending', 'paid', 'pay', 'admin', '', 'payment-buyer-paid', '', 9);
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (3, 'phones.01a22c3854bb7ed78b40b171681eb116', '2026-11-30 19:30:18.964+08', 'pending', 'paid', 'pay', 'admin', '', 'payment-buyer-refunded', '', 11);
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (4, 'phones.01a22c3854bb7ed78b40b171681eb116', '2026-11-30 19:30:18.967+08', 'paid', 'refunded', 'refund', 'admin', '', '', '', 12);
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (5, 'phones.01a22c3854da78839024adae55584f99', '2026-11-30 19:30:18.997+08', 'pending', 'cancelled', 'cancel', 'buyer', '', '', '', 14);
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (6, 'phones.01a22c3854da78839024adae55584f99', '2026-11-30 19:30:19.004+08', 'cancelled', 'refund_due', 'pay', 'admin', '', 'payment-buyer-refund_due', '', 15);
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (7, 'phones.01a22c3854fe7cc3a16484c51c55fe73', '2026-11-30 19:30:19.029+08', 'pending', 'rejected', 'reject', 'admin', 'no such address', '', '', 17);
INSERT INTO sluice_fixture.order_changes OVERRIDING SYSTEM VALUE VALUES (8, 'lamps.01a22c3855197e26b90e0cd5473741b0', '2026-11-30 19:30:20.285+08', 'pending', 'expired', 'expire', 'expiry', '', '', '', 19);
INSERT INTO sluice_fixture.order_events OVERRIDING SYSTEM VALUE VALUES (1, 'phones', 0, 1, 1, '2026-11-30 19:30:18.858+08', 5);
INSERT INTO sluice_fixture.order_events OVERRIDING SYSTEM VALUE VALUES (2, 'phones', 1, 2, 1, '2026-11-30 19:30:18.882+08', 6);
INSERT INTO sluice_fixture.order_events OVERRIDING SYSTEM VALUE VALUES (3, 'phones', 2, 3, 1, '2026-11-30 19:30:18.912+08', 8);
INSERT INTO sluice_fixture.order_events OVERRIDING SYSTEM VALUE VALUES (4, 'phones', 3, 4, 1, '2026-11-30 19:30:18.942+08', 10);
INSERT INTO sluice_fixture.order_events OVERRIDING SYSTEM VALUE VALUES (5, 'phones', 4, 5, 1, '2026-11-30 19:30:18.972+08', 13);
INSERT INTO sluice_fixture.order_events OVERRIDING SYSTEM VALUE VALUES (6, 'phones', 5, 6, 1, '2026-11-30 19:30:19.008+08', 16);
INSERT INTO sluice_fixture.order_events OVERRIDING SYSTEM VALUE VALUES (7, 'lamps', 6, 7, 1, '2026-11-30 19:30:19.036+08', 18);
INSERT INTO sluice_fixture.orders OVERRIDING SYSTEM VALUE VALUES (1, 'phones.01a22c38546476c8bff1905560fc52c5', 'phones', 'buyer-pending', 'key-of-buyer-pending', 1, '', '', 199900, 'CNY', 'pending', '', 1, 0, 1, 1, '34qxmnwm', '2026-11-30 19:30:18.854+08', '2026-11-30 19:30:18.858+08', '2026-12-30 19:30:18.858+08', '2026-12-30 19:30:18.858+08', '2026-11-30 19:30:18.858+08', '', false);
INSERT INTO sluice_fixture.orders OVERRIDING SYSTEM VALUE VALUES (2, 'phones.01a22c3854807694b4d2e9cab76828a1', 'phones', 'buyer-cancelled', 'key-of-buyer-cancelled', 1, '', '', 199900, 'CNY', 'cancelled', '', 1, 0, 2, 1, '34qxmnwm', '2026-11-30 19:30:18.88+08', '2026-11-30 19:30:18.882+08', '2026-12-30 19:30:18.882+08', '2026-12-30 19:30:18.882+08', '2026-11-30 19:30:18.906+08', '', true);
INSERT INTO sluice_fixture.orders OVERRIDING SYSTEM VALUE VALUES (3, 'phones.01a22c38549e7898a96bb98710ec626b', 'phones', 'buyer-paid', 'key-of-buyer-paid', 1, '', '', 199900, 'CNY', 'paid', '', 1, 0, 3, 1, '34qxmnwm', '2026-11-30 19:30:18.91+08', '2026-11-30 19:30:18.912+08', '2026-12-30 19:30:18.912+08', '2026-12-30 19:30:18.912+08', '2026-11-30 19:30:18.936+08', 'payment-buyer-paid', false);
INSERT INTO sluice_fixture.orders OVERRIDING SYSTEM VALUE VALUES (4, 'phones.01a22c3854bb7ed78b40b171681eb116', 'phones', 'buyer-refunded', 'key-of-buyer-refunded', 1, '', '', 199900, 'CNY', 'refunded', '', 1, 0, 4, 1, '34qxmnwm', '2026-11-30 19:30:18.94+08', '2026-11-30 19:30:18.942+08', '2026-12-30 19:30:18.942+08', '2026-12-30 19:30:18.942+08', '2026-11-30 19:30:18.967+08', 'payment-buyer-refunded', false);
INSERT INTO sluice_fixture.orders OVERRIDING SYSTEM VALUE VALUES (5, 'phones.01a22c3854da78839024adae55584f99', 'phones', 'buyer-refund_due', 'key-of-buyer-refund_due', 1, '', '', 199900, 'CNY', 'refund_due', '', 1, 0, 5, 1, '34qxmnwm', '2026-11-30 19:30:18.97+08', '2026-11-30 19:30:18.972+08', '2026-12-30 19:30:18.972+08', '2026-12-30 19:30:18.972+08', '2026-11-30 19:30:19.004+08', 'payment-buyer-refund_due', true);
INSERT INTO sluice_fixture.orders OVERRIDING SYSTEM VALUE VALUES (6, 'phones.01a22c3854fe7cc3a16484c51c55fe73', 'phones', 'buyer-rejected', 'key-of-buyer-rejected', 1, '', '', 199900, 'CNY', 'rejected', 'no such address', 1, 0, 6, 1, '34qxmnwm', '2026-11-30 19:30:19.006+08', '2026-11-30 19:30:19.008+08', '2026-12-30 19:30:19.008+08', '2026-12-30 19:30:19.008+08', '2026-11-30 19:30:19.029+08', '', false);
INSERT INTO sluice_fixture.orders OVERRIDING SYSTEM VALUE VALUES (7, 'lamps.01a22c3855197e26b90e0cd5473741b0', 'lamps', 'late', 'key-of-late', 1, '', '', 199900, 'CNY', 'expired', '', 1, 0, 1, 1, '34qxmnwm', '2026-11-30 19:30:19.034+08', '2026-11-30 19:30:19.036+08', '2026-11-30 19:30:20.036+08', '2026-11-30 19:30:20.036+08', '2026-11-30 19:30:20.285+08', '', true);
INSERT INTO sluice_fixture.payments VALUES ('payment-buyer-paid', 'phones.01a22c38549e7898a96bb98710ec626b');
INSERT INTO sluice_fixture.payments VALUES ('payment-buyer-refunded', 'phones.01a22c3854bb7ed78b40b171681eb116');
INSERT INTO sluice_fixture.payments VALUES ('payment-buyer-refund_due', 'phones.01a22c3854da78839024adae55584f99');
INSERT INTO sluice_fixture.sale_buyers VALUES ('phones', 'deny', 1796038218842, 'mallory');
INSERT INTO sluice_fixture.sale_events OVERRIDING SYSTEM VALUE VALUES (1, 'lamps', 'sale.created', '2026-11-30 19:30:18.783+08', '{"ID":"lamps","SKU":"sku","Title":"手机 \u0026 lamps","Price":{"amount":199900,"currency":"CNY"},"ListPrice":{"amount":0,"currency":""},"Free":false,"Version":1,"Total":20,"MaxPerBuyer":2,"MaxOrders":11,"MaxUnpaid":2,"OpensAt":"2026-11-30T11:29:18.774Z","ClosesAt":"0001-01-01T00:00:00Z","Paused":false,"PaymentWindow":1000000000,"PaymentGrace":0,"Rules":{},"Epoch":0,"LoadedEpoch":0,"Fence":"","Ledger":"","Taken":0,"Cap":20,"CreatedAt":"2026-11-30T11:30:18.783Z","UpdatedAt":"2026-11-30T11:30:18.783Z","ArchivedAt":"0001-01-01T00:00:00Z"}', 1);
INSERT INTO sluice_fixture.sale_events OVERRIDING SYSTEM VALUE VALUES (2, 'lamps', 'sale.available', '2026-11-30 19:30:18.819+08', '{"ID":"lamps","SKU":"sku","Title":"手机 \u0026 lamps","Price":{"amount":199900,"currency":"CNY"},"ListPrice":{"amount":0,"currency":""},"Free":false,"Version":1,"Total":20,"MaxPerBuyer":2,"MaxOrders":11,"MaxUnpaid":2,"OpensAt":"2026-11-30T11:29:18.774Z","ClosesAt":"0001-01-01T00:00:00Z","Paused":false,"PaymentWindow":1000000000,"PaymentGrace":0,"Rules":{},"Epoch":1,"LoadedEpoch":1,"Fence":"","Ledger":"redis:7piad6008inubrmjtt6e","Taken":0,"Cap":20,"CreatedAt":"2026-11-30T11:30:18.783Z","UpdatedAt":"2026-11-30T11:30:18.819Z","ArchivedAt":"0001-01-01T00:00:00Z"}', 2);
INSERT INTO sluice_fixture.sale_events OVERRIDING SYSTEM VALUE VALUES (3, 'phones', 'sale.created', '2026-11-30 19:30:18.827+08', '{"ID":"phones","SKU":"sku","Title":"手机 \u0026 lamps","Price":{"amount":199900,"currency":"CNY"},"ListPrice":{"amount":0,"currency":""},"Free":false,"Version":1,"Total":20,"MaxPerBuyer":2,"MaxOrders":11,"MaxUnpaid":2,"OpensAt":"2026-11-30T11:29:18.826Z","ClosesAt":"0001-01-01T00:00:00Z","Paused":false,"PaymentWindow":2592000000000000,"PaymentGrace":0,"Rules":{},"Epoch":0,"LoadedEpoch":0,"Fence":"","Ledger":"","Taken":0,"Cap":20,"CreatedAt":"2026-11-30T11:30:18.827Z","UpdatedAt":"2026-11-30T11:30:18.827Z","ArchivedAt":"0001-01-01T00:00:00Z"}', 3);
INSERT INTO sluice_fixture.sale_events OVERRIDING SYSTEM VALUE VALUES (4, 'phones', 'sale.available', '2026-11-30 19:30:18.834+08', '{"ID":"phones","SKU":"sku","Title":"手机 \u0026 lamps","Price":{"amount":199900,"currency":"CNY"},"ListPrice":{"amount":0,"currency":""},"Free":false,"Version":1,"Total":20,"MaxPerBuyer":2,"MaxOrders":11,"MaxUnpaid":2,"OpensAt":"2026-11-30T11:29:18.826Z","ClosesAt":"0001-01-01T00:00:00Z","Paused":false,"PaymentWindow":2592000000000000,"PaymentGrace":0,"Rules":{},"Epoch":1,"LoadedEpoch":1,"Fence":"","Ledger":"redis:7piad6008inubrmjtt6e","Taken":0,"Cap":20,"CreatedAt":"2026-11-30T11:30:18.827Z","UpdatedAt":"2026-11-30T11:30:18.834Z","ArchivedAt":"0001-01-01T00:00:00Z"}', 4);
INSERT INTO sluice_fixture.sale_lists VALUES ('phones', 'deny', 1796038218842, 1796038218842, 1, '2026-11-30 19:30:18.844+08');
INSERT INTO sluice_fixture.sale_terms VALUES ('lamps', 1, 20, 2, 11, 2, '2026-11-30 19:29:18.774+08', NULL, false, '2026-11-30 19:30:18.783+08');
INSERT INTO sluice_fixture.sale_terms VALUES ('phones', 1, 20, 2, 11, 2, '2026-11-30 19:29:18.826+08', NULL, false, '2026-11-30 19:30:18.827+08');
INSERT INTO sluice_fixture.sales VALUES ('lamps', 'sku', '手机 & lamps', 199900, 'CNY', NULL, NULL, false, 1000, 0, '{}', '{}', 1, 20, 2, 11, 2, '2026-11-30 19:29:18.774+08', NULL, false, 'redis:7piad6008inubrmjtt6e', 1, 1, '', 0, 20, '2026-11-30 19:30:18.783+08', '2026-11-30 19:30:18.819+08', NULL, NULL, NULL, NULL);
INSERT INTO sluice_fixture.sales VALUES ('phones', 'sku', '手机 & lamps', 199900, 'CNY', NULL, NULL, false, 2592000000, 0, '{}', '{}', 1, 20, 2, 11, 2, '2026-11-30 19:29:18.826+08', NULL, false, 'redis:7piad6008inubrmjtt6e', 1, 1, '', 2, 20, '2026-11-30 19:30:18.827+08', '2026-11-30 19:30:18.834+08', NULL, NULL, NULL, NULL);
INSERT INTO sluice_fixture.sluice_schema VALUES (1, 0, true, '2026-11-30 19:30:18.630038');
INSERT INTO sluice_fixture.sluice_schema VALUES (2, 1, true, '2026-11-30 19:30:18.640898');
INSERT INTO sluice_fixture.stretches VALUES ('phones', '2026-11-30 19:30:19+08', '34qxmnwm', true, '\x040006080509010b0100');
INSERT INTO sluice_fixture.stretches VALUES ('lamps', '2026-11-30 19:30:19+08', '34qxmnwm', true, '\x040001080509010b0100');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 2, 'lamps', 'pending', 1, '2026-11-30 19:30:23.95+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 3, 'phones', 'pending', 1, '2026-11-30 19:30:23.983+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 4, 'phones', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 5, 'phones.01a22c38546476c8bff1905560fc52c5', 'pending', 1, '2026-11-30 19:30:23.641+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 6, 'phones.01a22c3854807694b4d2e9cab76828a1', 'pending', 1, '2026-11-30 19:30:24.587+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 7, 'phones.01a22c3854807694b4d2e9cab76828a1', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 8, 'phones.01a22c38549e7898a96bb98710ec626b', 'pending', 1, '2026-11-30 19:30:23.379+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 9, 'phones.01a22c38549e7898a96bb98710ec626b', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 10, 'phones.01a22c3854bb7ed78b40b171681eb116', 'pending', 1, '2026-11-30 19:30:24.374+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 11, 'phones.01a22c3854bb7ed78b40b171681eb116', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 12, 'phones.01a22c3854bb7ed78b40b171681eb116', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 13, 'phones.01a22c3854da78839024adae55584f99', 'pending', 1, '2026-11-30 19:30:24.116+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 14, 'phones.01a22c3854da78839024adae55584f99', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 15, 'phones.01a22c3854da78839024adae55584f99', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 16, 'phones.01a22c3854fe7cc3a16484c51c55fe73', 'pending', 1, '2026-11-30 19:30:24.216+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 17, 'phones.01a22c3854fe7cc3a16484c51c55fe73', 'pending', 0, '2026-11-30 19:30:19.323+08', 0, '', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhook_deliveries VALUES ('wh_c25d1b54f1ea74c95f9a2992', 18, 'lamps.01a22c3855197e26b90e0cd5473741b0', 'pending', 1, '2026-11-30 19:30:24.122+08', 0, 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host', '2026-11-30 19:30:19.323+08');
INSERT INTO sluice_fixture.webhooks OVERRIDING SYSTEM VALUE VALUES ('wh_c25d1b54f1ea74c95f9a2992', 1, 'https://shop.invalid/sluice', 'of the fixture', 's1:lHI12BLjiYH4xJI+odfBGeHl/OUWWOqRcnA3pmNmEKgamJmdtUXmxbWfmQM7sD3w449GY8EEkMn0/pe9', '', '2026-11-30 19:30:18.848+08', '2026-11-30 19:30:18.848+08', NULL, '', 18, 0, 8, '2026-11-30 19:30:20.344+08', NULL, '2026-11-30 19:30:19.323+08', 'dial tcp: lookup shop.invalid on 10.255.255.53:53: no such host');
SELECT pg_catalog.setval('sluice_fixture.admin_actions_id_seq', 9, true);
SELECT pg_catalog.setval('sluice_fixture.dead_letters_id_seq', 1, true);
SELECT pg_catalog.setval('sluice_fixture.order_changes_position_seq', 8, true);
SELECT pg_catalog.setval('sluice_fixture.order_events_position_seq', 7, true);
SELECT pg_catalog.setval('sluice_fixture.orders_position_seq', 7, true);
SELECT pg_catalog.setval('sluice_fixture.releases_position_seq', 5, true);
SELECT pg_catalog.setval('sluice_fixture.sale_events_position_seq', 4, true);
SELECT pg_catalog.setval('sluice_fixture.sluice_schema_id_seq', 2, true);
SELECT pg_catalog.setval('sluice_fixture.webhooks_position_seq', 1, true);
ALTER TABLE ONLY sluice_fixture.admin_actions
    ADD CONSTRAINT admin_actions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice_fixture.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice_fixture.dead_letters
    ADD CONSTRAINT dead_letters_sale_id_epoch_entry_id_key UNIQUE (sale_id, epoch, entry_id);
ALTER TABLE ONLY sluice_fixture.event_feed
    ADD CONSTRAINT event_feed_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice_fixture.gathered
    ADD CONSTRAINT gathered_pkey PRIMARY KEY (sale_id, epoch, node);
ALTER TABLE ONLY sluice_fixture.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY sluice_fixture.ledger_promises
    ADD CONSTRAINT ledger_promises_pkey PRIMARY KEY (sale_id, buyer_id, claim_key);
ALTER TABLE ONLY sluice_fixture.ledger_rates
    ADD CONSTRAINT ledger_rates_pkey PRIMARY KEY (sale_id, who);
ALTER TABLE ONLY sluice_fixture.ledger_sales
    ADD CONSTRAINT ledger_sales_pkey PRIMARY KEY (sale_id);
ALTER TABLE ONLY sluice_fixture.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (node);
ALTER TABLE ONLY sluice_fixture.order_changes
    ADD CONSTRAINT order_changes_pkey PRIMARY KEY (order_id, from_status, refused);
ALTER TABLE ONLY sluice_fixture.order_events
    ADD CONSTRAINT order_events_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY sluice_fixture.orders
    ADD CONSTRAINT orders_claim UNIQUE (buyer_id, sale_id, claim_key);
ALTER TABLE ONLY sluice_fixture.orders
    ADD CONSTRAINT orders_order_id UNIQUE (order_id);
ALTER TABLE ONLY sluice_fixture.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY sluice_fixture.orders
    ADD CONSTRAINT orders_place UNIQUE (sale_id, epoch, bucket, seq);
ALTER TABLE ONLY sluice_fixture.payments
    ADD CONSTRAINT payments_order_id_key UNIQUE (order_id);
ALTER TABLE ONLY sluice_fixture.payments
    ADD CONSTRAINT payments_pkey PRIMARY KEY (payment_id);
ALTER TABLE ONLY sluice_fixture.pictures
    ADD CONSTRAINT pictures_pkey PRIMARY KEY (sale_id, id, size);
ALTER TABLE ONLY sluice_fixture.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (order_id);
ALTER TABLE ONLY sluice_fixture.restocks
    ADD CONSTRAINT restocks_pkey PRIMARY KEY (sale_id, restock_id);
ALTER TABLE ONLY sluice_fixture.sale_buyers
    ADD CONSTRAINT sale_buyers_pkey PRIMARY KEY (sale_id, kind, generation, buyer_id);
ALTER TABLE ONLY sluice_fixture.sale_events
    ADD CONSTRAINT sale_events_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY sluice_fixture.sale_lists
    ADD CONSTRAINT sale_lists_pkey PRIMARY KEY (sale_id, kind);
ALTER TABLE ONLY sluice_fixture.sale_terms
    ADD CONSTRAINT sale_terms_pkey PRIMARY KEY (sale_id, version);
ALTER TABLE ONLY sluice_fixture.sales
    ADD CONSTRAINT sales_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice_fixture.sluice_schema
    ADD CONSTRAINT sluice_schema_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice_fixture.stretches
    ADD CONSTRAINT stretches_pkey PRIMARY KEY (sale_id, begun_at, node);
ALTER TABLE ONLY sluice_fixture.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (webhook_id, event);
ALTER TABLE ONLY sluice_fixture.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);
CREATE INDEX dead_letters_open ON sluice_fixture.dead_letters USING btree (sale_id) WHERE (resolved_at IS NULL);
CREATE INDEX order_changes_event ON sluice_fixture.order_changes USING btree (event, "position");
CREATE INDEX order_events_event ON sluice_fixture.order_events USING btree (event, "position");
CREATE INDEX order_events_of_sale ON sluice_fixture.order_events USING btree (sale_id, upto_position);
CREATE INDEX orders_counted ON sluice_fixture.orders USING gin (string_to_array(regexp_replace(counters, '=[0-9]+'::text, ''::text, 'g'::text), ' '::text)) WITH (fastupdate=off) WHERE ((counters <> ''::text) AND (status = ANY (ARRAY['pending'::text, 'paid'::text])));
CREATE INDEX orders_of_sale ON sluice_fixture.orders USING btree (sale_id, "position");
CREATE INDEX orders_to_expire ON sluice_fixture.orders USING btree (keep_until) WHERE (status = 'pending'::text);
CREATE INDEX releases_of_sale ON sluice_fixture.releases USING btree (sale_id, "position");
CREATE INDEX sale_events_event ON sluice_fixture.sale_events USING btree (event, "position");
CREATE INDEX sales_live ON sluice_fixture.sales USING btree (id) WHERE (archived_at IS NULL);
CREATE INDEX sales_to_erase ON sluice_fixture.sales USING btree (id) WHERE ((erased_at IS NULL) AND (archived_at IS NOT NULL));
CREATE INDEX sales_to_purge ON sluice_fixture.sales USING btree (id) WHERE ((purged_at IS NULL) AND (archived_at IS NOT NULL));
CREATE INDEX webhook_deliveries_due ON sluice_fixture.webhook_deliveries USING btree (webhook_id, state, next_at);
CREATE INDEX webhook_deliveries_subject ON sluice_fixture.webhook_deliveries USING btree (webhook_id, subject, state, event);
CREATE TRIGGER ledger_sales_checked AFTER INSERT OR UPDATE OF epoch, version, total, max_per_buyer, max_orders, max_unpaid, opens_at, closes_at, promised ON sluice_fixture.ledger_sales FOR EACH ROW EXECUTE FUNCTION sluice_fixture.ledger_sales_checked();
ALTER TABLE sluice_fixture.ledger_sales ENABLE ALWAYS TRIGGER ledger_sales_checked;
CREATE TRIGGER ledger_units_returned AFTER UPDATE OF taken ON sluice_fixture.sales FOR EACH ROW WHEN ((new.taken < old.taken)) EXECUTE FUNCTION sluice_fixture.ledger_units_returned();
CREATE TRIGGER sales_checked AFTER INSERT OR UPDATE OF id, price_amount, price_currency, list_price_amount, list_price_currency, free, payment_window_ms, payment_grace_ms, terms_version, total, cap, max_per_buyer, max_orders, max_unpaid, opens_at, closes_at, epoch, loaded_epoch ON sluice_fixture.sales FOR EACH ROW EXECUTE FUNCTION sluice_fixture.sales_checked();
ALTER TABLE sluice_fixture.sales ENABLE ALWAYS TRIGGER sales_checked;
ALTER TABLE ONLY sluice_fixture.pictures
    ADD CONSTRAINT pictures_sale_id_fkey FOREIGN KEY (sale_id) REFERENCES sluice_fixture.sales(id);
ALTER TABLE ONLY sluice_fixture.restocks
    ADD CONSTRAINT restocks_sale_id_fkey FOREIGN KEY (sale_id) REFERENCES sluice_fixture.sales(id);
ALTER TABLE ONLY sluice_fixture.sale_lists
    ADD CONSTRAINT sale_lists_sale_id_fkey FOREIGN KEY (sale_id) REFERENCES sluice_fixture.sales(id);
ALTER TABLE ONLY sluice_fixture.sale_terms
    ADD CONSTRAINT sale_terms_sale_id_fkey FOREIGN KEY (sale_id) REFERENCES sluice_fixture.sales(id);
ALTER TABLE ONLY sluice_fixture.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES sluice_fixture.webhooks(id);
