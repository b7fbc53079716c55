// A sale and a buyer's purchase in it: on its own page, and in a <sluice-button>. All that is known
// is in one place (salestate.js), and salerender.js shows it. Here is what happens: the server,
// the buyer, other tabs and the clock change the state, and it is shown again.

import { Attempts, orderOf } from "./attempt.js";
import { time } from "./format.js";
import { base, clock, sluice } from "./here.js";
import { Lost, Problem, sleep } from "./http.js";
import { follow } from "./live.js";
import { announce, ended, OrderPanel, set } from "./orderpanel.js";
import { SaleRender } from "./salerender.js";
import { COPY, SaleState } from "./salestate.js";
import { t, titleOf } from "./texts.js";
import { Tickets } from "./ticket.js";

// showSale shows it in a root, which has the elements of templates/buy.html and order-panel; host
// has the state, for the styles. Who the buyer is, and where to sign in and pay, the page says:
// buyer.js has these functions for the pages of Sluice. An aborted signal ends it.
export async function showSale(page) {
  const { root, host, sale: id, signal } = page;
  const { buyer, loginLink, payLink, onBuyer, showBuyer, onLanguage, onRender, onOrder: tellOrder } = page;
  const $ = (id) => root.getElementById(id);
  const state = new SaleState();
  const shows = new SaleRender(root, host);
  let attempts = null; // of this buyer, in this sale
  let offAttempts;
  let focus = false; // the order takes the focus when it is there
  const say = (key, values) => {
    state.note = { key, values };
    render();
  };

  const tickets = new Tickets(id, render);
  const panel = new OrderPanel({ root, payLink, onOrder, signal });
  let live;

  // ---- what the server says

  function onSale(sale) {
    state.read(sale);
    schedule();
    tickets.want(state.sale, state.who);
    askOrder();
    render();
  }

  // schedule has the page rendered at the instants of opening and closing.
  let off = [];
  function schedule() {
    off.forEach((cancel) => cancel());
    const { opens_at: opens, closes_at: closes } = state.sale;
    off = [opens, closes].filter(Boolean).map(Date.parse).filter((at) => at > clock.now()).map((at) => clock.at(at, () => {
      render();
      setTimeout(() => live.refresh(), Math.random() * 2000);
    }));
  }

  // ---- who is here, and what they have tried

  function onWho() {
    const who = buyer();
    const same = who?.id === state.who?.id;
    state.who = who;
    if (!same) {
      offAttempts?.();
      attempts = who && new Attempts(id, who.id);
      offAttempts = attempts?.onChange(onAttempt);
      attempts?.ready();
      state.note = null;
      state.order = null;
    }
    showBuyer(who, onWho);
    onAttempt();
    if (state.sale) {
      tickets.want(state.sale, who);
      askOrder();
    }
  }

  // onAttempt looks at what is kept of the buyer's attempt: another tab may have
  // changed it, or may be gone in the middle of it.
  let looks = 0;
  async function onAttempt() {
    const look = ++looks;
    const attempt = attempts?.get() ?? null;
    const order = orderOf(attempt);
    if (order !== state.shown || panel.token !== (state.who?.token ?? null)) showOrder(order);
    const ofBuyer = attempts;
    const elsewhere = Boolean(attempt?.sent && !state.busy && await ofBuyer.busy());
    if (look !== looks) return; // a later look has newer facts
    state.elsewhere = elsewhere;
    render();
    if (elsewhere) ofBuyer.idle(onAttempt);
  }

  function showOrder(order) {
    state.shown = order;
    state.order = null;
    panel.follow(state.who ? order : null, state.who?.token ?? null);
  }

  function onOrder(order, problem) {
    if (problem?.status === 404) { // it is not this buyer's, or was never
      attempts.put(null);
      state.shown = null;
      panel.follow(null);
    }
    if (order) tellOrder?.(order);
    const came = order && !ended(order) && !state.order;
    state.order = order;
    if (came && state.note?.key !== "limitMany") state.note = null;
    render();
    if (order && focus) $("order-title").focus(); // from the button, which has done its work
    focus = false;
  }

  // ---- buying

  async function press() {
    if (state.busy) return;
    if (!state.canBuy) {
      announce(root, state.now === "upcoming" ? t("early2") : $("status").textContent);
      return;
    }
    await buy(quantity());
  }

  const quantity = () => ($("quantity-row").hidden ? 1 : Math.max(1, Math.trunc(Number($("quantity").value)) || 1));

  async function buy(quantity) {
    const { who } = state, ofBuyer = attempts;
    const before = state.shown;
    state.busy = true;
    state.came = null;
    say("sending");
    let attempt, outcome, token = who.token;
    const newest = () => (token = state.who?.id === who.id ? state.who.token : token);
    try {
      outcome = await ofBuyer.alone(async () => {
        const last = ofBuyer.get();
        if (last?.order && last.order !== before) return { order: last.order }; // another tab was quicker
        attempt = ofBuyer.press(quantity, clock.now());
        ofBuyer.update(attempt.key, { sent: true });
        const outcome = await sluice.claim(id, {
          key: attempt.key, quantity: attempt.quantity, token: newest, ticket: (again) => tickets.admits(say, again),
          signal, patience: Infinity, retry, onSend: () => say("sending"), onWait: sayWait,
        }).then(({ order_id: order }) => ({ order }), (problem) => {
          if (problem instanceof Problem) return { refused: problem };
          if (problem instanceof Lost) return { refused: problem.cause, unknown: true }; // signed out, or gone from the page
          throw problem;
        });
        // The order is what the attempt was for; a refusal leaves the key free for the next try.
        ofBuyer.update(attempt.key, { sent: Boolean(outcome.unknown), order: outcome.order ?? limitOrder(outcome.refused) });
        ofBuyer.ready();
        return outcome;
      });
    } finally {
      state.busy = false;
    }
    if (signal?.aborted) return;
    if (state.who?.id !== who.id) return onAttempt(); // signed out meanwhile
    state.note = null;
    if (outcome.refused) await refused(outcome.refused, { ...attempt, token });
    focus = Boolean(outcome.order) && (root.activeElement === $("buy") || document.activeElement === document.body);
    await onAttempt();
    live.refresh();
  }

  // retry is how many ms to wait before the same claim is sent again where the server did decide.
  function retry(problem) {
    const opens = Date.parse(problem.body?.opens_at ?? "") || Date.parse(state.sale.opens_at);
    // The server's clocks differ by a little, or ours from them.
    if (problem.code === "not_open" && opens - clock.now() < 3000) return Math.max(50, Math.min(opens - clock.now(), 1000));
    if (["sold_out", "insufficient", "paused"].includes(problem.code) && state.resting) return 200 + Math.random() * 200;
  }

  const WAITS = {
    outcome_unknown: "retryUnknown", overloaded: "retryBusy", unavailable: "retryUnavailable", rate_limited: "retryRate",
    not_open: "retryNotOpen",
  };

  function sayWait(problem, left) {
    const key = navigator.onLine === false ? "offline" : problem instanceof Lost ? "retryUnknown" : WAITS[problem.code];
    if (key) say(key, { n: Math.ceil(left / 1000) });
  }

  // limitOrder is the order that a buyer has who may not have another.
  const limitOrder = (problem) => (problem?.code === "buyer_limit" ? problem.body.order_ids?.at(-1) : undefined);

  async function refused(problem, { key, quantity, token }) {
    const until = state.now;
    switch (problem.code) {
      case "sold_out":
        if (state.sale.shows === "none") { // no reading says more than this answer
          state.note = { key: "soldOutNow", until };
          return;
        }
        state.soldOut();
        setTimeout(live.ask, COPY + Math.random() * COPY); // no event reports what has not changed
        return;
      case "insufficient":
        state.note = { key: "insufficient", wants: quantity, at: clock.now(), until };
        setTimeout(live.ask, COPY + Math.random() * COPY);
        return;
      case "paused": case "closed": case "not_open":
        state.note = { key: { paused: "pausedText", closed: "closedText", not_open: "early2" }[problem.code], until };
        return;
      case "buyer_limit":
        if (quantity > 1) state.note = { key: "limitMany" }; // fewer may be possible
        else if (limitOrder(problem)) state.note = { key: "limitOrder" };
        else state.note = { key: problem.body.limit ? "limitShared" : "limit", label: "buyLimit" };
        return;
      case "forbidden":
        if (["denied", "not_eligible"].includes(problem.body.reason)) {
          state.note = { key: "notEligible", label: "buyNot" };
          return;
        }
        if (problem.body.reason === "limit_missing") {
          state.note = { key: "limitMissing", label: "buyNot" };
          return;
        }
        break;
      case "unauthenticated":
        state.note = { key: "expired" };
        state.mustSignIn = token;
        return;
      case "sale_not_found":
        state.note = { key: "noSale", label: "buyUnavailable" };
        return;
      case "idempotency_key_reused": // another tab's attempt, or another device's, was accepted with it
        attempts.put(null);
        if (await recover(key)) return;
    }
    state.note = { problem, until };
  }

  // resume goes on with an attempt whose answer never came: the page was loaded
  // again in the middle.
  const STALE = 10 * 60_000; // ms after which a buyer may have changed their mind
  async function resume() {
    const attempt = attempts?.get();
    if (!attempt?.sent || attempt.order || state.busy || !state.signedIn) return;
    if (clock.now() - attempt.since < STALE) {
      say("resuming");
      return buy(attempt.quantity);
    }
    // Too old to buy without asking; but if it was accepted, here is the order.
    await recover(attempt.key);
    onAttempt();
  }

  // recover takes the buyer's newest order of this sale as what an attempt became.
  async function recover(key) {
    const order = (await ordersOf(state.who))?.findLast((order) => !ended(order));
    if (order) attempts.update(key, { sent: false, order: order.order_id });
    return order;
  }

  // askOrder finds an order that the buyer made on another device: once for each buyer, and not
  // while a sale opens, when the server has more to do.
  const RUSH = 15_000; // ms around the opening
  let askedFor; // id of the buyer
  async function askOrder() {
    const { who } = state, ofBuyer = attempts;
    const known = () => ofBuyer.get()?.sent || ofBuyer.get()?.order; // a refused attempt is no order
    if (!who || who.expired || askedFor === who.id || known()) return;
    askedFor = who.id;
    const opened = clock.now() - Date.parse(state.sale.opens_at);
    if (Math.abs(opened) < RUSH) await sleep(RUSH - opened + Math.random() * RUSH, signal);
    if (signal?.aborted || state.who?.id !== who.id || known() || state.busy) return;
    asking = true;
    const orders = await ordersOf(who);
    const order = orders?.findLast((order) => !ended(order));
    if (order && state.who?.id === who.id && !known() && !state.busy) {
      ofBuyer.put({ ...ofBuyer.press(order.quantity, clock.now()), order: order.order_id });
      onAttempt();
    }
    asking = false;
    render();
    if (orders) return;
    await sleep(RUSH + Math.random() * RUSH, signal); // no answer: asked once more, later
    askedFor = undefined;
  }

  // ordersOf are the buyer's orders of this sale, oldest first; null: the server does not answer.
  const ordersOf = (who) => sluice.ask(`/v1/orders?sale=${encodeURIComponent(id)}&limit=100`, { token: who.token })
    .then(({ orders }) => orders, () => null);

  // next names the sale that opens next, to those who came too late.
  let asked = false;
  async function showNext() {
    if (!["sold_out", "closed"].includes(state.now)) {
      $("next").hidden = true;
      return;
    }
    if (!asked) {
      asked = true;
      state.next = await sleep(Math.random() * 3000, signal).then(() => sluice.sales())
        .then((sales) => sales.find((sale) => sale.state === "upcoming" && sale.id !== id), () => null);
      if (signal?.aborted) return;
    }
    $("next").hidden = !state.next;
    if (!state.next) return;
    $("next-sale").href = `${base}/s/${encodeURIComponent(state.next.id)}`;
    set(root, "next-sale", t("next", { title: titleOf(state.next), time: time(Date.parse(state.next.opens_at), clock.now()) }));
  }

  // ---- showing it

  // waits: what a buyer sees first is not there yet, the sale or their order.
  let asking = false;
  const waits = () => !state.lost && !state.note && (!state.sale || asking || Boolean(state.shown && !state.order));

  function render() {
    panel.render();
    shows.show(state, loginLink(), tickets.status());
    onRender?.(state.sale, state.now, state.came, waits());
    showNext();
  }

  // ---- every second

  function tick() {
    if (state.sale) {
      shows.second(state);
      if (state.who && !state.who.expired && buyer()?.expired) onWho();
    }
    // The next full second of the server's clock, so that digits change on time.
    if (!signal?.aborted) setTimeout(tick, 1000 - (clock.now() % 1000) + 5);
  }

  // The clock is set again before the opening and after a sleep.
  async function keepTime() {
    await clock.sync().catch(() => {});
    if (signal?.aborted) return;
    if (state.sale) schedule();
    const left = state.sale ? Date.parse(state.sale.opens_at) - clock.now() : 0;
    setTimeout(keepTime, left > 40_000 ? Math.min(left - 20_000 - Math.random() * 15_000, 300_000) : 300_000);
  }

  document.addEventListener("visibilitychange", async () => {
    if (document.hidden) return;
    await clock.sync().catch(() => {});
    if (state.sale) schedule();
    render();
  }, { signal });

  $("buy").addEventListener("click", press);
  $("quantity").addEventListener("change", ({ target }) => { // what is seen is what is bought
    target.value = Math.min(Math.max(1, Math.trunc(Number(target.value)) || 1), Number(target.max) || Infinity);
    if (state.note?.wants && target.value <= state.units) state.note = null; // so many there are
    render();
  });
  onLanguage(() => {
    announce(root, ""); // it was said in the other language
    showBuyer(state.who, onWho);
    render();
  });
  onBuyer(onWho);
  await keepTime();
  if (signal?.aborted) return;
  onWho();
  live = follow(id, {
    onSale, pace: () => state.pace(),
    onGone: () => { state.sale = null; say("noSale"); },
    onLost: (lost) => { if (state.lost !== lost) { state.lost = lost; render(); } },
  });
  signal?.addEventListener("abort", () => {
    live.stop();
    off.forEach((cancel) => cancel());
    offAttempts?.();
    tickets.want({ state: "closed" }, null);
  });
  tick();
  resume();
}
