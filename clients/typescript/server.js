// For a shop's backend, in Node: tokens for its buyers, webhooks verified, and the merchant's half
// of the API. The secrets that it needs must never come into a browser.

import { createHmac, timingSafeEqual } from "node:crypto";
import { passing, sleep } from "./http.js";
import { pages, query, Sluice } from "./sluice.js";

export * from "./index.js";

// buyerToken is what a buyer of yours sends with each claim, for so many seconds. The id is of one
// to 128 bytes: the account's number. claims are more of them: iss, aud,
// sluice_sales, and what a sale has a limit by, like household.
export function buyerToken(buyer, secret, { seconds = 3600, ...claims } = {}) {
  if (typeof buyer !== "string" || buyer === "" || !secret) throw new TypeError("want a buyer's id and the buyer secret");
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const body = `${part({ alg: "HS256", typ: "JWT" })}.${part({ ...claims, sub: buyer, iat: now, exp: now + seconds })}`;
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}

// verifyWebhook returns the event of a request, or null if it is not one of ours, or of more than
// five minutes ago; it throws for a secret that is none. body is the raw body, bytes or a string;
// headers are those of the request.
export function verifyWebhook(secret, headers, body) {
  const header = (name) => String((typeof headers.get === "function" ? headers.get(name) : headers[name]) ?? "");
  const id = header("webhook-id"), at = header("webhook-timestamp");
  if (!(Math.abs(Date.now() / 1000 - Number(at)) <= 300)) return null;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (!secret.startsWith("whsec_") || key.length < 24) {
    throw new TypeError("want the secret: whsec_ and base64 of 24 bytes or more");
  }
  const want = createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest();
  const ours = header("webhook-signature").split(" ").some((signature) => {
    const got = Buffer.from(signature.slice(3), "base64");
    return signature.startsWith("v1,") && got.length === want.length && timingSafeEqual(got, want);
  });
  return ours ? JSON.parse(Buffer.from(body).toString()) : null;
}

const salePath = (sale) => `/v1/admin/sales/${encodeURIComponent(sale)}`;
const orderPath = (order) => `/v1/admin/orders/${encodeURIComponent(order)}`;

// Merchant is the shop itself. What changes an order is sent again for as long as it is not known
// to be done, by patience: each of these may be repeated.
export class Merchant {
  constructor(url, adminKey, { patience = 30_000 } = {}) {
    if (!adminKey) throw new TypeError("want the admin key");
    this.sluice = new Sluice(url, { token: adminKey });
    this.patience = patience; // ms
  }

  // ask sends any request of the merchant's half, once.
  ask(path, options) { return this.sluice.ask(path, options); }

  createSale(sale) { return this.ask("/v1/admin/sales", { json: sale }); }

  sale(sale) { return this.ask(salePath(sale)); }

  patchSale(sale, change) { return this.ask(salePath(sale), { method: "PATCH", json: change }); }

  // addPicture uploads a JPEG, PNG or WebP, which the sale shows after the pictures that it has.
  addPicture(sale, picture) {
    return this.ask(`${salePath(sale)}/pictures`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: picture });
  }

  // The actions open, pause, resume and close of a sale.
  open(sale) { return this.repeat(`${salePath(sale)}/open`); }

  pause(sale) { return this.repeat(`${salePath(sale)}/pause`); }

  resume(sale) { return this.repeat(`${salePath(sale)}/resume`); }

  close(sale) { return this.repeat(`${salePath(sale)}/close`); }

  order(order) { return this.ask(orderPath(order)); }

  // orders yields those that are stored, oldest first: of a sale, a buyer, a status, or all.
  async* orders(filter = {}) { yield* pages(this, "/v1/admin/orders", { limit: 1000, ...filter }); }

  // pay records a payment, {payment_id, amount, currency}. Look at the answer's status: a payment
  // that came too late makes the order refund_due.
  pay(order, payment) { return this.repeat(`${orderPath(order)}/pay`, payment); }

  cancel(order) { return this.repeat(`${orderPath(order)}/cancel`); }

  reject(order, reason) { return this.repeat(`${orderPath(order)}/reject`, { reason }); }

  refund(order) { return this.repeat(`${orderPath(order)}/refund`); }

  // extend gives an unpaid order until then, a Date.
  extend(order, until) { return this.repeat(`${orderPath(order)}/extend`, { expires_at: until.toISOString() }); }

  createWebhook(webhook) { return this.ask("/v1/admin/webhooks", { json: webhook }); }

  // events yields every event after the one with this id ("": from the first one that is kept,
  // "latest": new ones), in order, and waits for more until the signal comes. Save the id of
  // each with what you make of it, and go on there: then nothing is lost.
  async* events({ after = "", signal, every = 1000 } = {}) {
    for (let failures = 0; !signal?.aborted;) {
      let page = null, wait = every;
      try {
        page = await this.ask(`/v1/admin/events${query({ after, limit: 1000 })}`, { signal });
        failures = 0;
      } catch (error) {
        if (signal?.aborted) return;
        if (!passing(error)) throw error;
        wait = Math.max((error.retryAfter ?? 0) * 1000, Math.min(500 * 2 ** failures++, 15_000));
      }
      if (page) {
        yield* page.events;
        after = page.next;
        if (page.events.length === 1000) continue;
      }
      await sleep(wait, signal);
    }
  }

  async repeat(path, json = {}) {
    const until = Date.now() + this.patience;
    for (let tries = 0; ; tries++) {
      try {
        return await this.ask(path, { json });
      } catch (error) {
        const wait = Math.max((error.retryAfter ?? 0) * 1000, Math.min(100 * 2 ** tries, 5000)) * (1 + Math.random() / 4);
        if (!passing(error) || Date.now() + wait > until) throw error;
        await sleep(wait);
      }
    }
  }
}
