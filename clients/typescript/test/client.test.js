// The client against a real server: `go test -C test ./clients` starts one and runs this.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, request as forward } from "node:http";
import { test } from "node:test";
import * as all from "../server.js";

const { buyerToken, Lost, Merchant, newKey, Problem, Sluice, verifyWebhook } = all;
const { SLUICE_URL: url, SLUICE_ADMIN_KEY: adminKey, SLUICE_BUYER_SECRET: secret } = process.env;
const merchant = new Merchant(url, adminKey);
const buyer = (id, at = url) => new Sluice(at, { token: () => buyerToken(id, secret) });

let made = 0;
async function newSale(more = {}) {
  const sale = await merchant.createSale({
    id: `ts-${++made}`, sku: "MUG-1", title: "A mug", price: { amount: 1900, currency: "CNY" }, total: 10, max_per_buyer: 2,
    opens_at: new Date(Date.now() - 1000).toISOString(), ...more,
  });
  await until(async () => (await buyer("anyone").sale(sale.id)).state !== "unavailable");
  return sale.id;
}

async function until(holds) {
  for (const end = Date.now() + 30_000; !await holds(); await new Promise((wake) => setTimeout(wake, 20))) {
    if (Date.now() > end) throw new Error("not in time");
  }
}

const collect = async (items) => {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
};

// proxy passes requests on; before it may answer itself, and after has the answer before it goes
// back: true drops the connection.
async function proxy(t, { before = () => false, after = () => false }) {
  const server = createServer((req, res) => {
    if (before(req, res)) return;
    const on = forward(url + req.url, { method: req.method, headers: req.headers, agent: false }, (answer) => {
      if (after(req, answer, res)) return res.destroy();
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    on.on("error", () => res.destroy());
    res.on("close", () => on.destroy());
    req.pipe(on);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  t.after(() => { server.closeAllConnections(); server.close(); });
  return `http://127.0.0.1:${server.address().port}`;
}

const answer = (res, status, body, headers = {}) => {
  res.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
  res.end(JSON.stringify(body));
  return true;
};

test("a buyer buys, sees the order, and gives it back", async () => {
  const sale = await newSale();
  const alice = buyer("alice");
  assert.equal((await alice.sale(sale)).available, 10);
  assert.ok((await alice.sales()).some(({ id }) => id === sale));
  const placed = await alice.claim(sale, { quantity: 2, meta: { size: "XL" } });
  assert.equal(placed.replayed, false);
  const again = await alice.claim(sale, { key: placed.key, quantity: 2, meta: { size: "XL" } });
  assert.deepEqual([again.replayed, again.order_id], [true, placed.order_id]);
  await until(async () => (await alice.order(placed.order_id)).status === "pending");
  assert.deepEqual((await collect(alice.orders({ sale }))).map(({ order_id, amount, meta }) => [order_id, amount, meta]),
    [[placed.order_id, 3800, { size: "XL" }]]);
  await assert.rejects(alice.claim(sale), ({ code, status, body }) =>
    code === "buyer_limit" && status === 409 && body.order_ids[0] === placed.order_id);
  assert.equal((await alice.cancel(placed.order_id)).status, "cancelled");
  await assert.rejects(new Sluice(url).claim(sale), { code: "unauthenticated" });
});

test("no redirect takes a token elsewhere, or has its answer believed", async (t) => {
  const sale = await newSale();
  const seen = [];
  const elsewhere = await proxy(t, {
    before(req, res) { seen.push(req.url); return answer(res, 202, { order_id: "forged.0", server_time: "2001-01-01T00:00:00Z" }); },
  });
  const far = await proxy(t, {
    before(req, res) { res.writeHead(307, { Location: elsewhere + req.url }); res.end(); return true; },
  });
  const lost = buyer("roger", far), secretary = new Merchant(far, adminKey, { patience: 1 });
  await assert.rejects(lost.claim(sale, { patience: 1 }), Lost);
  await assert.rejects(lost.cancel("phone.0"), Lost);
  await assert.rejects(lost.sale(sale), Lost);
  await assert.rejects(secretary.sale(sale), Lost);
  await assert.rejects(new all.Clock(far).sync(), Error);
  await assert.rejects(lost.stream(sale).next(), Lost);
  assert.deepEqual(seen, []);
});

test("a claim keeps its key whatever gets lost", async (t) => {
  const sale = await newSale();
  const keys = [], problems = [];
  let tries = 0;
  const far = await proxy(t, {
    before(req, res) {
      keys.push(req.headers["idempotency-key"]);
      return ++tries === 2 ? answer(res, 503, { code: "outcome_unknown", title: "T", status: 503 }, { "Retry-After": "1" })
        : tries === 3 ? answer(res, 502, { not: "ours" })
          : tries === 4 && answer(res, 429, { code: "rate_limited", title: "T", status: 429 });
    },
    after: () => tries === 1, // accepted, and the answer is lost
  });
  const placed = await buyer("bob", far).claim(sale, { onWait: (problem) => problems.push(problem) });
  assert.equal(placed.replayed, true);
  assert.deepEqual(keys, Array(5).fill(placed.key));
  assert.ok(problems.some((problem) => problem instanceof Lost) && problems.some((problem) => problem.retryAfter === 1));
  await until(async () => (await collect(merchant.orders({ sale }))).length > 0);
  assert.equal((await merchant.sale(sale)).taken, 1);
});

test("what a proxy says decides nothing about earlier tries", async (t) => {
  const sale = await newSale();
  let tries = 0, second;
  const far = await proxy(t, {
    before: (req, res) => ++tries === 2 && second(res),
    after: () => tries === 1, // accepted, and the answer is lost
  });
  const html = (status) => (res) => { res.writeHead(status, { "Content-Type": "text/html" }); res.end("<h1>No</h1>"); return true; };
  const expired = (res) => answer(res, 401, { code: "unauthenticated", title: "T", status: 401 });
  for (const [id, says] of Object.entries({ nora: html(403), otto: html(413), pia: expired })) {
    [tries, second] = [0, says];
    const key = newKey();
    await assert.rejects(buyer(id, far).claim(sale, { key, token: buyerToken(id, secret) }),
      (error) => error instanceof Lost && error.key === key && error.cause instanceof Problem);
    assert.equal((await buyer(id).claim(sale, { key })).replayed, true);
  }
  const gateway = (status, body) => (res) => {
    res.writeHead(status, { "Content-Type": "application/json", "Retry-After": "-1000" });
    res.end(body);
    return true;
  };
  for (const says of [[504, '{"code":504}'], [502, '{"code":"BadGateway"}'], [503, "null"], [200, "null"], [200, "{}"]]) {
    [tries, second] = [0, gateway(...says)];
    assert.equal((await buyer(`g${says}`.replace(/\W/g, ""), far).claim(sale)).replayed, true);
  }
  [tries, second] = [1, gateway(400, "null")];
  await assert.rejects(buyer("rob", far).claim(sale), { status: 400, code: "" });
  [tries, second] = [0, () => false];
  let asked = 0;
  const token = () => (++asked === 2 ? Promise.reject(new TypeError("fetch failed")) : buyerToken("tina", secret));
  assert.equal((await new Sluice(far, { token }).claim(sale)).replayed, true);
  [tries, second] = [0, html(429)];
  assert.equal((await buyer("quin", far).claim(sale)).replayed, true);
  [tries, second] = [1, html(403)];
  await assert.rejects(buyer("rosa", far).claim(sale), { status: 403, code: "" });
});

test("a claim goes on with a token that is renewed", async () => {
  const sale = await newSale(), tokens = ["x", buyerToken("sven", secret)], sent = [];
  const token = () => (sent.push(0), tokens[Math.min(sent.length - 1, 1)]);
  assert.equal((await new Sluice(url, { token }).claim(sale)).replayed, false);
  await assert.rejects(new Sluice(url, { token: () => "x" }).claim(sale), { code: "unauthenticated" });
  let asked = 0;
  await assert.rejects(new Sluice(url, { token: () => `x${++asked}` }).claim(sale), { code: "unauthenticated" });
  assert.ok(asked < 5, `${asked} tokens that are no good`);
});

test("a claim that gives up says which key gets the outcome", async (t) => {
  const sale = await newSale();
  const far = await proxy(t, { after: () => true });
  const key = newKey();
  await assert.rejects(buyer("carol", far).claim(sale, { key, patience: 700 }),
    (error) => error instanceof Lost && error.key === key && /outcome is unknown/.test(error.message));
  const placed = await buyer("carol").claim(sale, { key });
  assert.equal(placed.replayed, true);
  const busy = await proxy(t, { before: (req, res) => answer(res, 503, { code: "overloaded", title: "Too busy", status: 503 }) });
  await assert.rejects(buyer("carol", busy).claim(sale, { patience: 1 }),
    (error) => error instanceof Problem && error.code === "overloaded" && /^[A-Z].* \(overloaded\)$/.test(error.message));
  const left = new AbortController();
  await assert.rejects(buyer("carol", busy).claim(sale, { signal: left.signal, onWait: () => left.abort() }), { code: "overloaded" });
});

test("a sale is followed through a broken connection", async (t) => {
  const sale = await newSale();
  let streams = 0;
  const far = await proxy(t, {
    before(req, res) {
      if (!req.url.endsWith("/events")) return false;
      return ++streams === 2 && answer(res, 503, { code: "overloaded", title: "T", status: 503 });
    },
    after(req, events, res) {
      if (req.url.endsWith("/events") && streams === 1) events.once("data", () => setImmediate(() => res.destroy()));
      return false;
    },
  });
  const left = new AbortController();
  const seen = [];
  for await (const { available, state } of buyer("dan", far).watch(sale, { signal: left.signal })) {
    seen.push(available);
    assert.equal(state, "open");
    if (streams >= 3 && available === 10 && seen.length < 90) { // more, if the machine is slow
      await buyer("dan").claim(sale, { key: "dan-attempt-1" });
    }
    if (available === 9) left.abort();
  }
  assert.equal(seen.at(-1), 9);
  assert.ok(streams >= 3, `${streams} streams`);
  await assert.rejects(buyer("dan").watch("none").next(), { code: "sale_not_found" });
});

test("a sale that asks for a ticket and a proof of work", async () => {
  const sale = await newSale({ ticket: { before_s: 60 }, challenge: { difficulty: 8 } });
  const eve = buyer("eve");
  await assert.rejects(eve.claim(sale), ({ body }) => body.reason === "ticket_missing");
  const shares = [];
  const asked = [];
  const placed = await eve.claim(sale, { ticket: async (again) => {
    asked.push(again);
    return again ? (await eve.ticket(sale, { onProgress: (share) => shares.push(share) })).ticket : "t1.bad";
  } });
  assert.ok(placed.order_id);
  assert.deepEqual(asked, [false, true]);
});

test("a sale by invitation in the token", async () => {
  const sale = await newSale({ eligibility: "token" });
  await assert.rejects(buyer("fay").claim(sale), ({ body }) => body.reason === "not_eligible");
  assert.ok(await new Sluice(url, { token: buyerToken("fay", secret, { sluice_sales: [sale] }) }).claim(sale));
  assert.throws(() => buyerToken("", secret), TypeError);
  assert.throws(() => buyerToken("fay", undefined), TypeError);
});

test("a backend that claims for a buyer passes the address on", async () => {
  const sale = await newSale({ address_rate: { requests: 1, per_s: 3600 } });
  await buyer("gil").claim(sale, { address: "192.0.2.1" });
  await assert.rejects(buyer("hal").claim(sale, { address: "192.0.2.1" }), { code: "rate_limited" });
  assert.ok(await buyer("hal").claim(sale, { address: "192.0.2.2" }));
});

test("the merchant is paid, pays back, rejects and gives time", async (t) => {
  const sale = await newSale({ max_per_buyer: null });
  let lost = 0;
  const far = await proxy(t, { after: (req) => req.url.endsWith("/pay") && lost++ < 2 });
  const [first, second, third] = await Promise.all([1, 2, 3].map(() => buyer("gus").claim(sale)));
  const shop = new Merchant(far, adminKey);
  const paid = await shop.pay(first.order_id, { payment_id: "ts-1", amount: 1900, currency: "CNY" }); // may be queued yet
  assert.deepEqual([paid.status, paid.payment_id, lost >= 3], ["paid", "ts-1", true]);
  await assert.rejects(shop.pay(first.order_id, { payment_id: "ts-2" }), { code: "payment_conflict" });
  assert.equal((await shop.refund(first.order_id)).status, "refunded");
  const later = new Date(Date.now() + 3600_000);
  assert.equal(Date.parse((await shop.extend(second.order_id, later)).expires_at), later.getTime());
  assert.equal((await shop.cancel(second.order_id)).status, "cancelled");
  assert.equal((await shop.reject(third.order_id, "no stock")).reason, "no stock");
  assert.deepEqual((await collect(shop.orders({ sale, status: "refunded" }))).map(({ order_id }) => order_id), [first.order_id]);
  assert.equal((await shop.pause(sale)).state, "paused");
  assert.equal((await shop.resume(sale)).paused, false);
  assert.equal((await shop.patchSale(sale, { title: "Two mugs" })).title, "Two mugs");
  assert.equal((await shop.close(sale)).state, "closed");
});

test("events are read on from where the reader stopped", async (t) => {
  const sale = await newSale();
  const order = (await buyer("hal").claim(sale)).order_id;
  await merchant.pay(order, { payment_id: "ts-hal" });
  let asked = 0;
  const far = await proxy(t, {
    before: (req, res) => ++asked === 2 && answer(res, 503, { code: "unavailable", title: "T", status: 503 }, { "Retry-After": "1" }),
    after: () => asked === 1,
  });
  const ours = ({ data }) => data.order?.order_id === order;
  const read = async (shop, after, more = () => {}) => {
    const seen = [];
    for await (const event of shop.events({ after, every: 50 })) {
      if (!ours(event)) continue;
      if (seen.push(event) === 2) await more();
      if (event.type === "order.refunded" || seen.length === 3) return seen;
    }
  };
  const types = (events) => events.map(({ type }) => type).join();
  const all = await read(new Merchant(far, adminKey), "", () => merchant.refund(order));
  assert.equal(types(all), "order.created,order.paid,order.refunded");
  assert.equal(types(await read(merchant, all[0].id)), "order.paid,order.refunded");
  await assert.rejects(merchant.events({ after: "evt_99999999_00000000" }).next(), { code: "stale_cursor" });
});

test("a webhook is verified, a forged and an old one are not", async (t) => {
  const got = [];
  const hook = createServer((req, res) => {
    const parts = [];
    req.on("data", (part) => parts.push(part)).on("end", () => {
      got.push({ headers: req.headers, body: Buffer.concat(parts) });
      res.writeHead(204).end();
    });
  });
  await new Promise((ready) => hook.listen(0, "127.0.0.1", ready));
  t.after(() => { hook.closeAllConnections(); hook.close(); });
  const webhook = await merchant.createWebhook({ url: `http://127.0.0.1:${hook.address().port}/`, types: ["order.created"] });
  const order = (await buyer("ida").claim(await newSale())).order_id;
  await until(() => got.length > 0);
  await merchant.ask(`/v1/admin/webhooks/${webhook.id}`, { method: "DELETE" });
  const { headers, body } = got[0];
  const event = verifyWebhook(webhook.secret, headers, body);
  assert.deepEqual([event.type, event.data.order.order_id], ["order.created", order]);
  assert.ok(verifyWebhook(webhook.secret, new Headers(headers), String(body)));
  assert.deepEqual(verifyWebhook(webhook.secret, headers, new Uint8Array(body)), event);
  assert.equal(verifyWebhook(webhook.secret, headers, `${body} `), null);
  assert.equal(verifyWebhook(`whsec_${"A".repeat(32)}`, headers, body), null);
  for (const none of ["", "whsec_", "whsec_undefined", "whsec_***", webhook.secret.slice(6)]) {
    assert.throws(() => verifyWebhook(none, headers, body), TypeError);
  }
  assert.equal(verifyWebhook(webhook.secret, {}, body), null);
  for (const [age, fresh] of [[0, true], [310, false], [-310, false], [NaN, false]]) {
    const at = String(Math.floor(Date.now() / 1000) - age);
    const mac = createHmac("sha256", Buffer.from(webhook.secret.slice(6), "base64")).update(`id.${at}.`).update(body);
    const signed = { "webhook-id": "id", "webhook-timestamp": at, "webhook-signature": `v1,bm8= v1,${mac.digest("base64")}` };
    assert.equal(verifyWebhook(webhook.secret, signed, body) !== null, fresh, `${age} s old`);
  }
});

test("what is exported is declared", async () => {
  for (const name of ["index", "server"]) {
    const declared = await readFile(new URL(`../${name}.d.ts`, import.meta.url), "utf8");
    const names = [...declared.matchAll(/^export (?:class|function) (\w+)/gm)].map(([, found]) => found);
    const module = await import(`../${name}.js`);
    const index = name === "server" ? Object.keys(await import("../index.js")) : [];
    assert.deepEqual(Object.keys(module).filter((key) => !index.includes(key)).sort(), names.sort());
  }
});
