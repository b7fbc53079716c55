// A whole shop beside Sluice, in Node: login, a page with the button, payment, webhook. An EXAMPLE: anyone may log in
// under any name, and no money moves. Needs SLUICE_URL, SLUICE_ADMIN_KEY, SLUICE_BUYER_SECRET, SLUICE_WEBHOOK_SECRET
// (of `sluice webhook create SHOP_URL/hooks/sluice`), SALE, PORT, and the shop's origin in the server's cors_origins.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { buyerToken, Merchant, verifyWebhook } from "@sluice/client/server";

const { SLUICE_URL, SLUICE_ADMIN_KEY, SLUICE_BUYER_SECRET, SLUICE_WEBHOOK_SECRET, SALE, PORT } = process.env;
const sluice = new Merchant(SLUICE_URL, SLUICE_ADMIN_KEY);
const orders = new Map(); // the shop's database: an order's id, and what is known of it

const html = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const page = (body) => `<!doctype html><html lang="en"><meta charset="utf-8"><title>Mugs</title>
<meta name="viewport" content="width=device-width">
<style>body { font: 17px system-ui; max-width: 26em; margin: 2em auto; padding: 0 1em }</style>${body}`;

// A session is a signed cookie; SameSite keeps other sites' forms out.
const sign = (name) => createHmac("sha256", `session ${SLUICE_BUYER_SECRET}`).update(name).digest("base64url");
function visitor(request) {
  const [, name, mac] = /(?:^|; )user=([^.;]+)\.([^;]+)/.exec(request.headers.cookie ?? "") ?? [];
  const want = name && Buffer.from(sign(name)), got = Buffer.from(mac ?? "");
  return want && got.length === want.length && timingSafeEqual(got, want) ? decodeURIComponent(name) : null;
}

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

const routes = {
  "GET /"(request) {
    const user = visitor(request);
    const token = user ? buyerToken(user, SLUICE_BUYER_SECRET) : "";
    return page(`<h1>Mug of the day</h1><p>${user ? `Welcome, ${html(user)}.` : "Welcome."}</p>
      <script type="module" src="${SLUICE_URL}/assets/latest/button.js"></script>
      <sluice-button sale="${html(SALE)}" token="${token}" login="/login" pay="/pay?order={order}"></sluice-button>`);
  },
  "GET /login": () => page(`<h1>Log in</h1><form method="post"><input name="name"> <button>Log in</button></form>`),
  async "POST /login"(request, answer) {
    const given = new URLSearchParams(String(await body(request))).get("name") || "guest";
    const name = encodeURIComponent(given).replaceAll(".", "%2E");
    answer.setHeader("Set-Cookie", `user=${name}.${sign(name)}; HttpOnly; SameSite=Lax; Path=/`);
    return { to: "/" };
  },
  async "GET /pay"(request, answer, query) {
    const order = await sluice.order(query.get("order"));
    if (order.buyer_id !== visitor(request)) return page("<h1>This is not your order</h1>");
    const due = `${order.amount / 100} ${html(order.currency)}`;
    return page(`<h1>Pay ${due}</h1><form method="post"><button>Pay</button></form>`);
  },
  // What a payment provider's callback would do. The id of the payment makes a repeat harmless.
  async "POST /pay"(request, answer, query) {
    const { order_id: id, buyer_id: buyer, amount, currency } = await sluice.order(query.get("order"));
    if (buyer !== visitor(request)) return page("<h1>This is not your order</h1>");
    const order = await sluice.pay(id, { payment_id: `mock-${id}`, amount, currency });
    if (order.status === "refund_due") await sluice.refund(order.order_id); // too late: give the money back first
    return { to: "/" };
  },
  async "POST /hooks/sluice"(request, answer) {
    const event = verifyWebhook(SLUICE_WEBHOOK_SECRET, request.headers, await body(request));
    if (!event) answer.statusCode = 401;
    const order = event?.data.order; // events of an order come in order, some more than once
    if (order) orders.set(order.order_id, { buyer: order.buyer_id, status: order.status, event: event.id });
    return "";
  },
  "GET /orders": () => JSON.stringify(Object.fromEntries(orders)),
};

createServer(async (request, answer) => {
  const { pathname, searchParams } = new URL(request.url, "http://shop");
  answer.setHeader("Content-Type", pathname === "/orders" ? "application/json" : "text/html; charset=utf-8");
  try {
    const said = await routes[`${request.method} ${pathname}`]?.(request, answer, searchParams);
    if (said === undefined) answer.statusCode = 404;
    if (said?.to) answer.writeHead(303, { Location: said.to });
    answer.end(said?.to ? "" : said ?? "");
  } catch (error) {
    console.error(error);
    answer.writeHead(502).end(page("<h1>Try again in a moment</h1>"));
  }
}).listen(Number(PORT), "127.0.0.1", () => console.log(`the shop is open at port ${PORT}`));
