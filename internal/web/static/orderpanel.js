// The panel of one order, on the page of its sale and on its own page: what
// became of it, how long there is to pay, and how to give it back.

import { money, number, short, split, time } from "./format.js";
import { base, clock, sluice } from "./here.js";
import { Problem, sleep } from "./http.js";
import { t } from "./texts.js";

// The seconds before the deadline to pay at which it is read out again.
const SAY_AT = [300, 60];

export const ended = (order) => ["cancelled", "expired", "rejected", "refunded", "refund_due"].includes(order.status);

// worded is a status as the texts know it: of money nothing is said where none is known of.
export const worded = ({ status, amount }) => (!amount && ["paid", "refunded"].includes(status) ? `${status}0` : status);

export class OrderPanel {
  // onOrder is called with every new state of the order, and with null when
  // this buyer has no such order. payLink is where to pay for one, or null.
  constructor({ root, payLink, onOrder, signal }) {
    Object.assign(this, { root, payLink, onOrder });
    const $ = this.$ = (id) => root.getElementById(id);
    this.order = null;
    this.token = null;
    this.note = ""; // key of a text about cancelling
    this.following = new AbortController();
    $("cancel").addEventListener("click", () => this.ask(true));
    $("sure-no").addEventListener("click", () => { this.ask(false); $("cancel").focus(); });
    $("sure-yes").addEventListener("click", () => this.cancel());
    $("sure").addEventListener("keydown", ({ key }) => { if (key === "Escape") $("sure-no").click(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.wake?.abort(); }, { signal });
    const ticks = setInterval(() => this.tick(), 500);
    signal?.addEventListener("abort", () => { clearInterval(ticks); this.following.abort(); });
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
        const order = await sluice.order(id, { token: this.token });
        if (signal.aborted) return;
        this.take(order);
        if (ended(order) && !["refund_due", "expired"].includes(order.status)) return;
      } catch (error) {
        if (signal.aborted) return;
        // Without a code it is a proxy's answer, while the server is away.
        if (error instanceof Problem && error.code && [401, 403, 404].includes(error.status)) return this.onOrder(null, error);
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
    if (order.status !== this.order?.status || order.expires_at !== this.order?.expires_at) {
      this.news = true;
      this.saidAt = Infinity;
    }
    this.order = order;
    this.render();
    this.onOrder(order);
    if (this.news) {
      const until = order.status === "pending" && !this.late() ? ` ${this.left()}` : "";
      announce(this.root, `${this.$("order-title").textContent}. ${this.text()}${until}`);
    }
    this.news = false;
  }

  ask(open) {
    this.$("sure").hidden = !open;
    this.$("cancel").hidden = open;
    if (open) this.$("sure-yes").focus();
  }

  // cancel waits for an order that is not stored yet, as the server asks.
  async cancel() {
    const { order_id: id } = this.order;
    this.say("cancelling");
    for (let tries = 0; tries < 5; tries++) {
      try {
        this.note = "";
        this.take(await sluice.cancel(id, { token: this.token }));
        this.$("order-title").focus();
        return;
      } catch (error) {
        if (error.code === "order_ended") {
          this.say("cancelEnded");
          this.$("order-title").focus();
          return this.wake?.abort(); // and look what it is now
        }
        await sleep((error.retryAfter ?? 1) * 1000);
      }
    }
    this.say("cancelFailed");
    this.$("cancel").focus();
  }

  say(note) {
    this.note = note;
    this.ask(false);
    this.render();
    announce(this.root, t(note));
  }

  ms() { return Date.parse(this.order.expires_at) - clock.now(); }

  // left is the time to pay in words: 4:05 would be read out as a time of day.
  left() { return t("leftToPay", { time: t("duration", split(this.ms())) }); }

  late() { return this.order.status === "pending" && clock.now() > Date.parse(this.order.expires_at); }

  render() {
    const { order } = this;
    this.$("order").hidden = !order;
    if (!order) return;
    const { status } = order;
    const late = this.wasLate = this.late();
    this.$("order").dataset.status = late ? "late" : status;
    this.set("order-title", t(late ? "s_late" : `s_${worded(order)}`, { n: order.quantity }));
    this.set("order-text", this.note ? t(this.note) : this.text());
    this.set("order-amount", money(order));
    this.$("order-amount").parentElement.hidden = !order.amount; // it costs nothing, or the shop knows the price
    this.set("order-quantity", number(order.quantity));
    this.set("order-id", order.order_id);
    const page = `${base}/o/${encodeURIComponent(order.order_id)}`;
    if (!base.includes(":") && page !== location.pathname) this.$("order-id").href = page;
    const pending = status === "pending";
    this.$("order-until-row").hidden = !pending;
    if (pending) this.set("order-until", time(Date.parse(order.expires_at), clock.now()));
    const pay = this.payLink(order.order_id);
    this.$("pay").hidden = !(pending && pay && !late);
    if (pay) this.$("pay").href = pay;
    const open = !this.$("sure").hidden;
    if (!pending) this.$("sure").hidden = true;
    this.$("cancel").hidden = !pending || open || this.note === "cancelling";
    this.tick();
  }

  text() {
    const { status, reason, quantity: n } = this.order;
    if (status === "rejected") return t("t_rejected", { reason: reason === "not_covered" ? "" : reason });
    if (status === "pending") return t(this.late() ? "t_late" : this.payLink("x") ? "t_pending" : "t_pendingShop", { n });
    return t(`t_${worded(this.order)}`, { n });
  }

  tick() {
    const left = this.$("order-left");
    if (this.order && this.late() !== this.wasLate) return this.render();
    const pending = this.order?.status === "pending" && !this.late();
    left.hidden = !pending;
    if (!this.order) return;
    if (pending) {
      const ms = this.ms();
      this.set("order-left", t("leftToPay", { time: short(ms) }));
      const seconds = Math.ceil(ms / 1000);
      const due = SAY_AT.find((s) => seconds <= s && s < this.saidAt && seconds > s - 5);
      if (due) {
        this.saidAt = due;
        announce(this.root, this.left());
      }
      left.classList.toggle("urgent", ms < 60_000);
    }
    if (!this.note) this.set("order-text", this.text());
  }

  set(id, text) { set(this.root, id, text); }
}

// announce says it to those who listen.
export function announce(root, text) {
  root.getElementById("said").textContent = text;
}

// set writes a text only if it is another one: screen readers read what changes.
export function set(root, id, text) {
  const place = root.getElementById(id);
  if (place.textContent !== text) place.textContent = text;
}
