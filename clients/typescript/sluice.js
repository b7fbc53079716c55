// What a buyer can do: read sales, follow one, claim, and see what became of it.

import { newKey } from "./attempt.js";
import { claim } from "./claim.js";
import { passing, request, sleep } from "./http.js";
import { solve } from "./pow.js";
import { messages } from "./stream.js";

export const salePath = (sale) => `/v1/sales/${encodeURIComponent(sale)}`;
export const orderPath = (order) => `/v1/orders/${encodeURIComponent(order)}`;

const STEADY = 10_000; // ms after which a stream that ends is no failure

export class Sluice {
  // url is the server's address, with the path under which it is served: "" for a page's own.
  // token is the buyer's, or a function that returns it, now or later.
  constructor(url = "", { token } = {}) {
    this.base = url.replace(/\/+$/, "");
    this.token = token;
  }

  // ask sends one request and returns the body of the answer.
  async ask(path, { token = this.token, json, ...options } = {}) {
    if (typeof token === "function") token = await token();
    if (json !== undefined) {
      options = { method: "POST", ...options, headers: { "Content-Type": "application/json", ...options.headers }, body: JSON.stringify(json) };
    }
    return (await request(this.base, path, { token, ...options })).body;
  }

  async sales(options) { return (await this.ask("/v1/sales", { token: "", ...options })).sales; }

  sale(sale, options) { return this.ask(salePath(sale), { token: "", cache: "no-cache", ...options }); }

  // stream yields a sale as it is, and whenever it changes, until the connection ends.
  async* stream(sale, options) {
    for await (const text of messages(this.base + salePath(sale) + "/events", options)) yield JSON.parse(text);
  }

  // watch is a stream that connects again. Each connection begins with the sale as it is then, so
  // the newest state is never missed. Where there is no stream it asks, every few seconds.
  async* watch(sale, { signal } = {}) {
    for (let failures = 0; !signal?.aborted; failures++) {
      let wait = 0;
      const begun = Date.now(), onRetry = (ms) => { wait = Math.min(ms, 15_000); };
      try {
        yield* this.stream(sale, { signal, onRetry });
      } catch (error) {
        if (!passing(error)) throw error;
        wait = Math.max(wait, (error.retryAfter ?? 0) * 1000);
        const news = await this.sale(sale, { signal }).catch(() => null);
        if (news) yield news;
      }
      if (Date.now() - begun > STEADY) failures = 0;
      await sleep(Math.max(wait, Math.min(250 * 2 ** failures, 5000)) * (0.75 + Math.random() / 2), signal);
    }
  }

  // claim buys. As long as nothing is decided it sends the same key again; it resolves to the
  // order's {order_id, ...} and the key, and rejects with a Problem that the server stated, or
  // with Lost, whose key gets the outcome.
  async claim(sale, { key = newKey(), token = this.token, ...options } = {}) {
    return claim(this.base, `${salePath(sale)}/orders`, { key, token, ...options });
  }

  // ticket gets the ticket that a sale may ask for, {ticket, expires_at}, and does the proof of
  // work. risk is what the shop's captcha gave, onProgress gets the share of the work that is done.
  async ticket(sale, { risk, onProgress, signal, token } = {}) {
    const post = (what, json) => this.ask(`${salePath(sale)}/${what}`, { json, signal, token });
    try {
      return await post("ticket", { token: risk });
    } catch (error) {
      if (error.body?.reason !== "challenge_missing") throw error;
    }
    const { challenge, difficulty } = await post("challenge", {});
    const nonce = await solve(challenge, difficulty, onProgress, signal);
    return post("ticket", { challenge, nonce, token: risk });
  }

  order(order, options) { return this.ask(orderPath(order), options); }

  // orders yields the buyer's own, oldest first.
  async* orders({ sale, ...options } = {}) {
    yield* pages(this, "/v1/orders", { sale }, options);
  }

  // cancel gives an unpaid order back. An order that is not stored yet is order_queued: again
  // after the Problem's retryAfter.
  cancel(order, options) { return this.ask(`${orderPath(order)}/cancel`, { method: "POST", ...options }); }
}

// pages yields the orders of one page after the other.
export async function* pages(sluice, path, filter, options) {
  for (let cursor = ""; ;) {
    const page = await sluice.ask(path + query({ ...filter, cursor }), options);
    yield* page.orders;
    if (!(cursor = page.next_cursor)) return;
  }
}

// query is a query string of what is there.
export function query(values) {
  const there = Object.entries(values).filter(([, value]) => value !== undefined && value !== "");
  return there.length ? `?${new URLSearchParams(there)}` : "";
}
