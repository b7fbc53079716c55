// How a page shows what it knows of a sale (salestate.js).

import { leftText, split } from "./format.js";
import { clock } from "./here.js";
import { announce, set } from "./orderpanel.js";
import { errorText, lang, t } from "./texts.js";

const SHOW_CLOSING = 3600_000; // ms before the end from which it is counted down
const SAY_AT = [600, 60, 10]; // seconds before the opening that are read out

export class SaleRender {
  #told = "";
  #saidAt = Infinity;

  // root has the elements; host has the state, for the styles.
  constructor(root, host) {
    this.root = root;
    this.host = host;
  }

  #$(id) { return this.root.getElementById(id); }

  // show shows it all. Link is where to sign in, if anywhere; tickets is what they say.
  show(state, link, tickets) {
    const { now } = state;
    this.host.dataset.state = now;
    this.#countdown(state);
    this.#stock(state);
    this.#button(state, link);
    this.#status(state, link, tickets);
    this.#$("status").dataset.kind = state.kind;
    // Who has bought needs no empty card beside the order, once that is there.
    this.#$("action").hidden = state.hasLive && !this.#$("order").hidden && this.#$("buy").hidden && this.#$("login").hidden &&
      !this.#$("status").textContent;
  }

  // second shows what passes with the time, and reads out that the opening is near.
  second(state) {
    this.#countdown(state);
    if (state.now !== "upcoming") return;
    const left = Math.ceil((Date.parse(state.sale.opens_at) - clock.now()) / 1000);
    const due = SAY_AT.find((s) => left <= s && s < this.#saidAt && left > s - 5);
    if (due) {
      this.#saidAt = due;
      announce(this.root, t("soon", { time: t("duration", split(left * 1000)) }));
    }
  }

  #countdown({ sale, now }) {
    let to = null;
    if (now === "upcoming") to = Date.parse(sale.opens_at);
    else if (sale?.closes_at && ["open", "sold_out"].includes(now) &&
      Date.parse(sale.closes_at) - clock.now() < SHOW_CLOSING) to = Date.parse(sale.closes_at);
    this.#$("countdown").hidden = to === null;
    if (to === null) return;
    this.#$("countdown").classList.toggle("compact", now !== "upcoming");
    const left = split(to - clock.now());
    set(this.root, "countdown-label", t(now === "upcoming" ? "opensIn" : "closesIn"));
    set(this.root, "countdown-text", t("duration", left));
    this.#$("days").hidden = left.d === 0;
    this.#$("hours").hidden = now !== "upcoming" && left.d + left.h === 0;
    for (const [name, n] of [["days", left.d], ["hours", left.h], ["minutes", left.m], ["seconds", left.s]]) {
      const [digits, unit] = this.#$(name).children;
      const text = name === "days" ? String(n) : String(n).padStart(2, "0");
      if (digits.textContent !== text) digits.textContent = text;
      if (unit.textContent !== t(name)) unit.textContent = t(name);
    }
  }

  #stock({ sale, now }) {
    const shows = (sale?.shows ? ["open", "sold_out"] : ["open", "sold_out", "paused"]).includes(now) &&
      sale.total !== 0 && sale.shows !== "none";
    this.#$("stock").hidden = !shows;
    if (!shows) return;
    const n = now === "sold_out" ? 0 : sale.available;
    // Shops in China show how much is gone, others how much is left.
    const bar = this.#$("stock-bar");
    bar.hidden = sale.total === null || n === null;
    bar.max = sale.total ?? 1;
    bar.value = lang() === "en" ? n ?? 0 : bar.max - (n ?? 0);
    set(this.root, "stock-text", n === null ? t(sale.shows ? "inStock" : "unlimited") : leftText(sale, n));
  }

  #button(state, link) {
    const { now, busy } = state;
    const button = this.#$("buy"), login = this.#$("login");
    login.hidden = !(state.wantsLogin && link);
    if (link) login.href = link;
    // With a live order in hand and nothing more to buy, the panel has the buttons.
    button.hidden = ["unknown", "closed"].includes(now) && !busy || state.wantsLogin ||
      (state.hasLive && !busy && !state.mayBuyMore);
    const can = state.canBuy && !busy;
    if (button.getAttribute("aria-disabled") !== String(!can)) button.setAttribute("aria-disabled", String(!can));
    set(this.root, "buy", t(...state.label));
    const limit = state.sale?.max_per_buyer;
    this.#$("quantity-row").hidden = button.hidden || limit === 1 || !["open", "upcoming"].includes(now);
    this.#$("quantity").max = limit ?? "";
    this.#$("quantity").disabled = busy;
  }

  // The status is also said to those who listen: once for each thing that happens, not for
  // each second of a countdown.
  #status(state, link, tickets) {
    const { note, now } = state;
    const [key = "", values] = note?.problem ? ["refused"] : state.status(tickets, Boolean(link));
    const text = note?.problem ? errorText(note.problem) : key && t(key, values);
    set(this.root, "status", text);
    const news = `${now} ${key}`;
    const opens = now === "open" && this.#told.startsWith("upcoming ");
    if (news !== this.#told && key) announce(this.root, opens ? `${t("nowOpen")} ${text}` : text);
    this.#told = news;
  }
}
