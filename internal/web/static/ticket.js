// The ticket that a sale may ask for. It is fetched before the opening, so that
// at the opening nothing stands between the button and the claim; and it is
// kept for all tabs, so that a reload costs no work again.

import { clock, sluice } from "./here.js";
import { Problem } from "./http.js";

const SPREAD = 10_000; // ms; a crowd must not ask in one instant
const SPARE = 15_000; // ms before its end from which on a ticket is renewed
const FIRST = 1000, LONGEST = 30_000; // ms between two tries in the background
const FINAL = ["closed", "sale_state", "sale_not_found", "unauthenticated", "denied", "not_eligible", "limit_missing"];
const FAR = 2 ** 31 - 1; // ms, the longest timer

export class Tickets {
  constructor(sale, changed) {
    this.sale = sale;
    this.changed = changed;
    this.from = null; // when tickets are handed out, ms; null: none is asked for
    this.buyer = null; // {id, token}
    this.under = null; // the promise of a fetch under way
    this.share = null; // of the proof of work, while it is done
    this.failed = false;
    this.refused = null; // the last word: this buyer gets none
    this.wait = FIRST;
  }

  // want has a ticket fetched in time, if the sale asks for one.
  want(sale, buyer) {
    const over = sale.state === "closed" || !buyer || buyer.expired;
    const from = sale.tickets_from && !over ? Date.parse(sale.tickets_from) : null;
    if (from === this.from && buyer?.token === this.buyer?.token) return;
    this.from = from;
    this.buyer = over ? null : buyer;
    this.failed = false;
    this.refused = null;
    this.wait = FIRST;
    this.plan(Math.random() * Math.min(SPREAD, Math.max(0, (Date.parse(sale.opens_at) - from) / 4)));
  }

  // plan has a ticket fetched when tickets are handed out, or before the one
  // that is here ends; later is added to that.
  plan(later) {
    clearTimeout(this.timer);
    if (this.from === null) return;
    const due = Math.max(this.from, (this.kept()?.expires ?? 0) - SPARE) + later;
    this.timer = setTimeout(() => {
      if (clock.now() < due) this.plan(0);
      else this.fetch().catch(() => {});
    }, Math.min(Math.max(due - clock.now(), 0), FAR));
  }

  // status is what to tell the buyer of it before the opening; null: nothing.
  status() {
    if (this.from === null || clock.now() < this.from) return null;
    if (this.share !== null) return ["proving", { percent: Math.round(this.share * 100) }];
    if (this.kept()) return ["ticketReady"];
    if (this.refused) return [{ denied: "notEligible", not_eligible: "notEligible", limit_missing: "limitMissing", unauthenticated: "expired" }[this.refused] ?? "ticketNone"];
    return [this.failed ? "ticketFailed" : "ticket"];
  }

  // admits is what a claim carries: the ticket that is here, or is under way.
  // Without one the claim goes without, for it may be the repeat of an accepted
  // one, which needs none; if the server wants one after all, the page requests
  // a new one, and then reports a refusal.
  async admits(say, again = false) {
    if (!again && !this.under && !this.kept()) return null;
    if (again || !this.kept()) {
      if (again && !this.under) this.drop();
      say(this.share === null ? "ticket" : "proving", { percent: Math.round((this.share ?? 0) * 100) });
      this.say = say;
      try {
        await (this.under ?? this.fetch());
      } catch (error) {
        if (again) throw error;
      } finally {
        this.say = null;
      }
    }
    return this.kept()?.ticket;
  }

  // fetch gets a ticket, one at a time, and plans the next.
  fetch() {
    this.under ??= this.get().then(() => {
      this.failed = false;
      this.refused = null;
      this.wait = FIRST;
      this.plan(0);
    }, (error) => {
      this.failed = true;
      // What the server has refused, it refuses again, but for what time mends.
      const why = error.body?.reason ?? error.code;
      if (FINAL.includes(why)) this.refused = why;
      else {
        this.plan(0);
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.fetch().catch(() => {}), Math.max((error.retryAfter ?? 0) * 1000, this.wait * (0.5 + Math.random() / 2)));
        this.wait = Math.min(this.wait * 2, LONGEST);
      }
      throw error;
    }).finally(() => {
      this.under = this.share = null;
      this.changed();
    });
    this.changed();
    return this.under;
  }

  async get() {
    const buyer = this.buyer;
    if (!buyer) throw new Problem({ code: "unauthenticated" }, 401);
    const answer = await sluice.ticket(this.sale, { token: buyer.token, onProgress: (share) => this.proving(share) });
    this.keep(buyer, { ticket: answer.ticket, expires: Date.parse(answer.expires_at) });
  }

  proving(share) {
    const told = this.share === null ? -1 : Math.round(this.share * 100);
    this.share = share;
    const percent = Math.round(share * 100);
    if (percent === told) return;
    this.say?.("proving", { percent });
    this.changed();
  }

  // ---- what is kept, per sale and buyer

  key(buyer) { return `sluice_ticket:${this.sale}:${buyer.id}`; }

  kept() {
    if (!this.buyer) return null;
    let kept = this.memory?.id === this.buyer.id ? this.memory : null;
    try { kept = JSON.parse(localStorage.getItem(this.key(this.buyer))) ?? kept; } catch { /* then for this page only */ }
    return kept?.ticket && kept.expires > clock.now() ? kept : null;
  }

  keep(buyer, ticket) {
    this.memory = { ...ticket, id: buyer.id };
    try { localStorage.setItem(this.key(buyer), JSON.stringify(ticket)); } catch { /* then for this page only */ }
  }

  drop() {
    this.memory = null;
    try { localStorage.removeItem(this.key(this.buyer)); } catch { /* there is none */ }
  }
}
