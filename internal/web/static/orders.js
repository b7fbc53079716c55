// The orders of a buyer, the newest first.

import { buyer, loginLink, onBuyer, payLink, showBuyer } from "./buyer.js";
import { showClock } from "./foot.js";
import { element, money, short, time } from "./format.js";
import { base, clock, pictureOf, settled, sluice } from "./here.js";
import { Problem } from "./http.js";
import { worded } from "./orderpanel.js";
import { onLanguage, t, titleOf } from "./texts.js";

const $ = (id) => document.getElementById(id);
const MOST = 10; // pages of a hundred orders
let who = null, orders = null, failed = ""; // failed: the text that says why
const sales = new Map(); // what is known of the sales of these orders

// load reads all pages, oldest first as the server has them.
async function load() {
  const { id, token } = who;
  const all = [];
  try {
    for (let cursor = "", page = 0; page < MOST; page++) {
      const { orders: more, next_cursor: next } = await sluice.ask(`/v1/orders?limit=100&cursor=${encodeURIComponent(cursor)}`, { token });
      all.push(...more);
      cursor = next;
      if (!cursor) break;
    }
    failed = "";
  } catch (error) {
    failed = error instanceof Problem && error.status === 401 ? "expired" : "ordersFailed";
  }
  if (who?.id !== id) return;
  if (!failed) orders = all.reverse();
  render();
  const unknown = [...new Set((orders ?? []).map((order) => order.sale_id))].filter((sale) => !sales.has(sale));
  await Promise.all(unknown.map(async (sale) =>
    sales.set(sale, await sluice.sale(sale).catch(() => ({ id: sale, title: sale })))));
  if (unknown.length) render();
}

function row(order) {
  const sale = sales.get(order.sale_id) ?? { id: order.sale_id, title: "…" };
  const late = order.status === "pending" && clock.now() > Date.parse(order.expires_at);
  const status = late ? "late" : order.status;
  const page = `${base}/o/${encodeURIComponent(order.order_id)}`;
  const [first] = sale.pictures ?? [];
  const shot = element("span", { className: "shot" });
  if (first) shot.append(element("img", { src: pictureOf(sale, first), width: 640, height: 640, alt: "" }));
  const text = element("div", {},
    element("a", { className: "name", href: page, text: titleOf(sale) }),
    element("p", { className: "few", text: `${order.amount ? `${money(order)} · ` : ""}× ${order.quantity} · ${time(Date.parse(order.accepted_at), clock.now())}` }),
    element("p", { className: "state", text: t(`s_${late ? "late" : worded(order)}`, { n: order.quantity }) }));
  text.lastChild.dataset.status = status;
  const item = element("li", { className: "card" }, shot, text);
  if (status === "pending") {
    const left = element("p", { className: "left" });
    left.dataset.until = order.expires_at;
    text.append(left);
    const buttons = element("div", { className: "buttons" });
    const pay = payLink(order.order_id);
    if (pay) buttons.append(element("a", { className: "button", href: pay, text: t("payNow") }));
    buttons.append(element("a", { className: "button quiet", href: page, text: t("cancelOrder") }));
    item.append(buttons);
  }
  return item;
}

function note() {
  if (!who || who.expired) return who?.expired ? "expired" : loginLink() ? "ordersSignIn" : "ordersSignInBare";
  if (failed) return failed;
  return orders === null ? "loading" : orders.length ? "" : "noOrders";
}

function render() {
  showBuyer(who, onWho);
  const key = note();
  $("status").textContent = key ? t(key) : "";
  if (key !== "loading") settled();
  const link = loginLink();
  $("login").hidden = !(link && ["ordersSignIn", "expired"].includes(key));
  $("login").textContent = t("signInShort");
  if (link) $("login").href = link;
  $("orders").replaceChildren(...(who && !who.expired ? orders ?? [] : []).map(row));
  count();
}

// count shows how long there is to pay.
function count() {
  let over = false;
  for (const place of document.querySelectorAll("[data-until]")) {
    const left = Date.parse(place.dataset.until) - clock.now();
    if (left <= 0) over = true;
    const text = t("leftToPay", { time: short(left) });
    if (place.textContent !== text) place.textContent = text;
  }
  if (over) render();
}

function onWho() {
  const before = who?.id;
  who = buyer();
  if (who?.id !== before) [orders, failed] = [null, ""];
  render();
  if (who && !who.expired) load();
}

onLanguage(render);
onBuyer(onWho);
document.addEventListener("visibilitychange", () => { if (!document.hidden && who && !who.expired) load(); });
await clock.sync().catch(() => {});
onWho();
setInterval(count, 1000);
showClock(onLanguage);
