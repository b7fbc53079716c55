// The panel of one order, on the page of its sale and on its own page: what
// became of it, how long there is to pay, and how to give it back.

import { api, base, orderPath, Problem, sleep } from "./api.js";
import { payLink } from "./buyer.js";
import * as clock from "./clock.js";
import { money, number, short, time } from "./format.js";
import { t } from "./texts.js";

const $ = (id) => document.getElementById(id);

export const ended = (order) => ["cancelled", "expired", "rejected", "refunded", "refund_due", "retaken"].includes(order.status);

export class OrderPanel {
  // onOrder is called with every new state of the order, and with null when
  // this buyer has no such order.
  constructor({ onOrder }) {
    this.onOrder = onOrder;
    this.order = null;
    this.token = null;
    this.note = ""; // key of a text about cancelling
    this.following = new AbortController();
    $("cancel").addEventListener("click", () => this.ask(true));
    $("sure-no").addEventListener("click", () => { this.ask(false); $("cancel").focus(); });
    $("sure-yes").addEventListener("click", () => this.cancel());
    $("sure").addEventListener("keydown", ({ key }) => { if (key === "Escape") $("sure-no").click(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.wake?.abort(); });
    setInterval(() => this.tick(), 500);
  }

  // follow shows an order and keeps it up to date; of null nothing is shown.
  follow(id, token) {
    this.following.abort();
    const { signal } = this.following = new AbortController();
    this.order = null;
    this.token = token;
    this.note = "";
    this.render();
    if (id) this.run(id, signal);
  }

  async run(id, signal) {
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        const order = await api(orderPath(id), { token: this.token });
        if (signal.aborted) return;
        this.take(order);
        if (ended(order) && !["refund_due", "expired"].includes(order.status)) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && [401, 403, 404].includes(error.status)) return this.onOrder(null, error);
      }
      // Being stored takes milliseconds, a payment minutes. One that comes late may still
      // count: the buyer comes back to this page from paying.
      const wait = this.order?.status === "expired" ? 600_000
        : this.order?.status === "queued" || !this.order ? Math.min(200 * 2 ** tries, 3000) : document.hidden ? 15_000 : 3000;
      this.wake = new AbortController();
      signal.addEventListener("abort", () => this.wake.abort(), { once: true });
      await sleep(wait * (0.75 + Math.random() / 2), this.wake.signal);
    }
  }

  take(order) {
    if (order.status !== this.order?.status) this.news = true;
    this.order = order;
    this.render();
    this.onOrder(order);
    if (this.news) announce(`${$("order-title").textContent}. ${this.text()}`);
    this.news = false;
  }

  ask(open) {
    $("sure").hidden = !open;
    $("cancel").hidden = open;
    if (open) $("sure-yes").focus();
  }

  // cancel waits for an order that is not stored yet, as the server asks.
  async cancel() {
    const { order_id: id } = this.order;
    this.say("cancelling");
    for (let tries = 0; tries < 5; tries++) {
      try {
        this.note = "";
        this.take(await api(`${orderPath(id)}/cancel`, { method: "POST", token: this.token }));
        $("order-title").focus();
        return;
      } catch (error) {
        if (error.code === "order_ended") {
          this.say("cancelEnded");
          $("order-title").focus();
          return this.wake?.abort(); // and look what it is now
        }
        await sleep((error.retryAfter ?? 1) * 1000);
      }
    }
    this.say("cancelFailed");
    $("cancel").focus();
  }

  say(note) {
    this.note = note;
    this.ask(false);
    this.render();
    announce(t(note));
  }

  late() { return this.order.status === "pending" && clock.now() > Date.parse(this.order.expires_at); }

  render() {
    const { order } = this;
    $("order").hidden = !order;
    if (!order) return;
    const { status } = order;
    const late = this.wasLate = this.late();
    $("order").dataset.status = late ? "late" : status;
    set("order-title", t(late ? "s_late" : `s_${status}`, { n: order.quantity }));
    set("order-text", this.note ? t(this.note) : this.text());
    // The answer of a server of the version before has no amount.
    set("order-amount", money(order.currency ? order : { ...order.price, amount: order.price.amount * order.quantity }));
    set("order-quantity", number(order.quantity));
    set("order-id", order.order_id);
    const page = `${base}/o/${encodeURIComponent(order.order_id)}`;
    if (page !== location.pathname) $("order-id").href = page;
    const pending = status === "pending";
    $("order-until-row").hidden = !pending;
    if (pending) set("order-until", time(Date.parse(order.expires_at), clock.now()));
    const pay = payLink(order.order_id);
    $("pay").hidden = !(pending && pay && !late);
    if (pay) $("pay").href = pay;
    const open = !$("sure").hidden;
    if (!pending) $("sure").hidden = true;
    $("cancel").hidden = !pending || open || this.note === "cancelling";
    this.tick();
  }

  text() {
    const { status, reason, quantity: n } = this.order;
    if (status === "rejected") return t("t_rejected", { reason: reason === "not_covered" ? "" : reason });
    if (status === "pending") return t(this.late() ? "t_late" : payLink("x") ? "t_pending" : "t_pendingShop", { n });
    return t(`t_${status}`, { n });
  }

  tick() {
    const left = $("order-left");
    if (this.order && this.late() !== this.wasLate) return this.render();
    const pending = this.order?.status === "pending" && !this.late();
    left.hidden = !pending;
    if (!this.order) return;
    if (pending) {
      const ms = Date.parse(this.order.expires_at) - clock.now();
      set("order-left", t("leftToPay", { time: short(ms) }));
      left.classList.toggle("urgent", ms < 60_000);
    }
    if (!this.note) set("order-text", this.text());
  }
}

// announce says it to those who listen.
export function announce(text) {
  $("said").textContent = text;
}

// set writes a text only if it is another one: screen readers read what changes.
function set(id, text) {
  const place = $(id);
  if (place.textContent !== text) place.textContent = text;
}
