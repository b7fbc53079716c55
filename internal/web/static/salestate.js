// What a page knows of a sale and of a buyer's purchase in it, and what follows from that at this
// very moment. Nothing here asks the server or touches the page.

import { time } from "./format.js";
import { clock } from "./here.js";
import { ended } from "./orderpanel.js";

// COPY is how old a cached reading is at most, in ms.
export const COPY = 3000;

// In REST ms a sale that was reopened may still refuse.
const REST = 1000;

const WARN = ["insufficient", "soldOutNow", "limit", "limitMany", "limitShared", "limitMissing", "notEligible", "noSale"];

export class SaleState {
  sale = null; // as the server last said
  who = null; // the buyer
  next = null; // the sale that opens next, once this one has nothing to sell
  shown = null; // id of the order in the panel
  order = null; // the same, as last seen
  busy = false; // a claim is on its way from this tab
  elsewhere = false; // or from another tab
  lost = false; // the server does not answer
  mustSignIn; // the token that the server no longer takes; a session of the shop has none (null)
  // What to say instead of what the state says: {key, values} or {problem};
  // until: in what state it holds; wants: until there are so many units;
  // label: what the button says that can do nothing for this buyer.
  note = null;
  came = null; // units came while we were waiting: the key of what to say
  wants = 0; // and how many had been asked for
  #reopenedAt = -Infinity; // server's time
  #soldOutAt = -Infinity; // when a claim was refused so, server's time

  // now is the sale's state: opening and closing need no message. But a sale that the
  // server says has begun has begun, whatever the countdown shows: the page's clock may
  // be a little behind.
  get now() {
    const { sale } = this;
    if (!sale) return "unknown";
    const now = clock.now();
    if (sale.closes_at && now >= Date.parse(sale.closes_at)) return "closed";
    if (sale.state !== "upcoming" || now < Date.parse(sale.opens_at)) return sale.state;
    return sale.available === 0 ? "sold_out" : "open";
  }

  // read takes what the server says of the sale.
  read(sale) {
    if (this.#outdated(sale)) sale = { ...sale, state: "sold_out", available: 0 };
    const before = this.sale && this.now;
    this.sale = sale;
    if (this.note?.key === "noSale") this.note = null; // the shop shows it again
    const after = this.now;
    if (["sold_out", "paused"].includes(before) && after === "open") this.#reopenedAt = clock.now();
    if (after !== "open") this.came = null;
    else if (before === "sold_out" && sale.available !== 0) [this.came, this.note] = ["back", null];
    else if (this.#enough()) [this.came, this.wants, this.note] = ["enough", this.note.wants, null];
    else if (this.came === "enough" && this.units < this.wants) { // others were quicker
      [this.came, this.note] = [null, { key: "insufficient", wants: this.wants, at: -Infinity, until: after }];
    }
    // What was said of a refusal holds until the state is another one.
    if (before !== after && this.note?.until && this.note.until !== after) this.note = null;
  }

  // soldOut takes a refusal: it is newer than readings that a cache still has.
  soldOut() {
    this.#soldOutAt = clock.now();
    this.sale = { ...this.sale, state: "sold_out", available: 0 };
    this.note = null;
  }

  // A reading from before a claim of ours was refused is outdated. One that still says
  // "open" after a cache's time is true again.
  #outdated(sale) { return sale.state === "open" && this.#older(sale, this.#soldOutAt); }
  #older(sale, moment) { return Date.parse(sale.server_time) < moment && clock.now() - moment < COPY; }

  // There were fewer units than were asked for, and now there are enough.
  #enough() {
    const { sale, note } = this;
    return note?.wants && !sale.shows && !this.#older(sale, note.at) && this.units >= note.wants;
  }

  get units() { return this.sale.available ?? Infinity; }

  // resting: a sale that has just been reopened rests for half a second before it sells.
  get resting() { return clock.now() - this.#reopenedAt < REST; }

  get signedIn() { return Boolean(this.who && !this.who.expired && this.mustSignIn !== this.who.token); }

  get hasLive() { return Boolean(this.shown && !(this.order && ended(this.order))); }

  // mayBuyMore: with a live order in hand only where the limit leaves room.
  get mayBuyMore() {
    const limit = this.sale?.max_per_buyer;
    return !this.hasLive ||
      Boolean(this.order && (limit === null || this.order.quantity < limit) && this.note?.key !== "limitOrder");
  }

  get canBuy() {
    return this.signedIn && this.now === "open" && this.mayBuyMore && !this.elsewhere && !this.note?.label;
  }

  // wantsLogin: there is something to sign in for.
  get wantsLogin() {
    return this.sale !== null && !this.signedIn && !this.busy &&
      ["upcoming", "open", "unavailable"].includes(this.now);
  }

  // pace is how often to ask where there are no events, in ms.
  pace() {
    if (!this.sale || this.lost) return 2000;
    const toOpening = Date.parse(this.sale.opens_at) - clock.now();
    switch (this.now) {
      case "upcoming": return Math.min(Math.max(toOpening / 4, 2000), 30_000);
      case "closed": return 60_000;
      default: return 1500;
    }
  }

  // kind is how the status looks.
  get kind() {
    if (this.busy || this.elsewhere) return "busy";
    if (this.came) return "good";
    if (this.note?.problem) return "bad";
    return WARN.includes(this.note?.key) || this.lost && !this.note ? "warn" : this.now;
  }

  // label is what the button says: the key of a text, and its values.
  get label() {
    if (this.busy || this.elsewhere) return ["busy"];
    if (this.note?.label) return [this.note.label];
    switch (this.now) {
      case "upcoming": return ["wait", { time: time(Date.parse(this.sale.opens_at), clock.now(), false) }];
      case "open": return [!this.order ? "buy" : ended(this.order) ? "buyAgain" : "buyMore"];
      case "sold_out": return ["buySoldOut"];
      case "paused": return ["buyPaused"];
      case "closed": return ["buyClosed"];
      default: return ["buyUnavailable"];
    }
  }

  // status is what to tell: the key of a text, and its values. Tickets say more before the
  // opening; login: there is a page to sign in on.
  status(tickets, login) {
    const { now, note, sale, came } = this;
    if (note?.wants) {
      const n = sale.available;
      if (sale.shows) return ["insufficientKept"];
      return n > 0 && n < note.wants ? ["insufficient", { n }] : ["insufficientAny"];
    }
    if (note) return [note.key, note.values];
    if (this.lost) return ["gone"];
    if (this.elsewhere) return ["otherTab"];
    if (this.hasLive && !this.mayBuyMore) return [];
    if (now === "closed") return ["closedText"];
    if (now === "unavailable") return ["unavailableText"];
    if (this.who?.expired) return ["expired"];
    if (now === "sold_out") return ["soldOut"];
    if (now === "paused") return ["pausedText"];
    if (now !== "unknown" && !this.signedIn) return [login ? "signIn" : "signInBare"];
    if (now === "upcoming") return tickets ?? ["early"];
    if (now === "open" && came && sale.shows) return ["backKept"];
    if (now === "open") return came && sale.available > 0 ? [came, { n: sale.available }] : ["ready"];
    return [];
  }
}
