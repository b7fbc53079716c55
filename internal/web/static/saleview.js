// A sale and a buyer's purchase in it: on its own page, and in a <sluice-button>. Everything
// that it knows is in one place (view), and render shows that; whatever happens changes the view
// and renders again.

import { Attempts, orderOf } from "./attempt.js";
import { number, split, time } from "./format.js";
import { clock, sluice } from "./here.js";
import { Lost, Problem } from "./http.js";
import { follow } from "./live.js";
import { announce, ended, OrderPanel, set } from "./orderpanel.js";
import { errorText, t } from "./texts.js";
import { Tickets } from "./ticket.js";

// showSale shows it in a root, which has the elements of templates/buy.html and order-panel; host
// has the state, for the styles. Who the buyer is, and where to sign in and pay, the page says:
// buyer.js has these functions for the pages of Sluice. An aborted signal ends it.
export async function showSale(page) {
  const { root, host, sale: id, signal } = page;
  const { buyer, loginLink, payLink, onBuyer, showBuyer, onLanguage, onRender, onOrder: tellOrder } = page;
  const $ = (id) => root.getElementById(id);
  const say = (key, values) => {
    view.note = { key, values };
    render();
  };

  const view = {
    sale: null, // as the server last said
    who: null, // the buyer
    attempts: null, // of this buyer, in this sale
    order: null, // the buyer's newest, as last seen
    busy: false, // a claim is on its way from this tab
    elsewhere: false, // or from another tab
    // What to say instead of what the state says: {key, values} or {problem};
    // until: in what state it holds; wants: until there are so many units;
    // label: what the button says that can do nothing for this buyer.
    note: null,
    came: null, // units came while we were waiting: the key of what to say
    wants: 0, // and how many had been asked for
    lost: false, // the server does not answer
    focus: false, // the order takes the focus when it is there
  };

  const tickets = new Tickets(id, render);
  const panel = new OrderPanel({ root, payLink, onOrder, signal });
  let live;

  // ---- what the server says

  function onSale(sale) {
    if (outdated(sale)) sale = { ...sale, state: "sold_out", available: 0 };
    const before = view.sale && state();
    view.sale = sale;
    if (view.note?.key === "noSale") view.note = null; // the shop shows it again
    const after = state();
    if (["sold_out", "paused"].includes(before) && after === "open") reopenedAt = clock.now();
    if (after !== "open") view.came = null;
    else if (before === "sold_out" && sale.available !== 0) [view.came, view.note] = ["back", null];
    else if (enough(sale)) [view.came, view.wants, view.note] = ["enough", view.note.wants, null];
    else if (view.came === "enough" && units(sale) < view.wants) { // others were quicker
      [view.came, view.note] = [null, { key: "insufficient", wants: view.wants, at: -Infinity, until: after }];
    }
    // What was said of a refusal holds until the state is another one.
    if (before !== after && view.note?.until && view.note.until !== after) view.note = null;
    schedule();
    tickets.want(sale, view.who);
    render();
  }

  // outdated: a reading from before a claim of ours was refused as sold out (or
  // for too few units), which is newer. A cached copy is a few seconds old at
  // most; a reading that still says "open" after that is true again.
  const COPY = 3000; // ms
  const REST = 1000; // ms in which a sale that was reopened may still refuse
  let reopenedAt = -Infinity; // server's time
  let soldOutAt = -Infinity; // when a claim was refused so, server's time
  const older = (sale, moment) => Date.parse(sale.server_time) < moment && clock.now() - moment < COPY;
  const outdated = (sale) => sale.state === "open" && older(sale, soldOutAt);

  // enough: there were fewer units than were asked for, and now there are enough.
  const enough = (sale) => view.note?.wants && !sale.shows && !older(sale, view.note.at) && units(sale) >= view.note.wants;
  const units = (sale) => sale.available ?? Infinity;

  // state is the sale's at this very moment: opening and closing need no message.
  // But a sale that the server says has begun has begun, whatever the countdown
  // shows: the page's clock may be a little behind.
  function state() {
    const { sale } = view;
    if (!sale) return "unknown";
    const now = clock.now();
    if (sale.closes_at && now >= Date.parse(sale.closes_at)) return "closed";
    if (sale.state !== "upcoming" || now < Date.parse(sale.opens_at)) return sale.state;
    return sale.available === 0 ? "sold_out" : "open";
  }

  // schedule has the page rendered at the instants of opening and closing.
  let off = [];
  function schedule() {
    off.forEach((cancel) => cancel());
    const { opens_at: opens, closes_at: closes } = view.sale;
    off = [opens, closes].filter(Boolean).map(Date.parse).filter((at) => at > clock.now()).map((at) => clock.at(at, () => {
      render();
      setTimeout(() => live.refresh(), Math.random() * 2000);
    }));
  }

  // pace is how often to ask where there are no events.
  function pace(sale) {
    if (!sale || view.lost) return 2000;
    const toOpening = Date.parse(sale.opens_at) - clock.now();
    switch (state()) {
      case "upcoming": return Math.min(Math.max(toOpening / 4, 2000), 30_000);
      case "closed": return 60_000;
      default: return 1500;
    }
  }

  // ---- who is here, and what they have tried

  function onWho() {
    const who = buyer();
    const same = who?.id === view.who?.id;
    view.who = who;
    if (!same) {
      view.offAttempts?.();
      view.attempts = who && new Attempts(id, who.id);
      view.offAttempts = view.attempts?.onChange(onAttempt);
      view.attempts?.ready();
      view.note = null;
      view.order = null;
    }
    showBuyer(who, onWho);
    onAttempt();
    if (view.sale) tickets.want(view.sale, who);
  }

  // onAttempt looks at what is kept of the buyer's attempt: another tab may have
  // changed it, or may be gone in the middle of it.
  let looks = 0;
  async function onAttempt() {
    const look = ++looks;
    const attempt = view.attempts?.get() ?? null;
    const order = orderOf(attempt);
    if (order !== shown || panel.token !== (view.who?.token ?? null)) showOrder(order);
    const { attempts } = view;
    const elsewhere = Boolean(attempt?.sent && !view.busy && await attempts.busy());
    if (look !== looks) return; // a later look has newer facts
    view.elsewhere = elsewhere;
    render();
    if (elsewhere) attempts.idle(onAttempt);
  }

  let shown = null; // id of the order in the panel
  function showOrder(order) {
    shown = order;
    view.order = null;
    panel.follow(view.who ? order : null, view.who?.token ?? null);
  }

  function onOrder(order, problem) {
    if (problem?.status === 404) { // it is not this buyer's, or was never
      view.attempts.put(null);
      shown = null;
      panel.follow(null);
    }
    if (order) tellOrder?.(order);
    const came = order && !ended(order) && !view.order;
    view.order = order;
    if (came && view.note?.key !== "limitMany") view.note = null;
    render();
    if (order && view.focus) $("order-title").focus(); // from the button, which has done its work
    view.focus = false;
  }

  // ---- buying

  async function press() {
    if (view.busy) return;
    if (!canBuy()) {
      announce(root, state() === "upcoming" ? t("early2") : $("status").textContent);
      return;
    }
    await buy(quantity());
  }

  const quantity = () => ($("quantity-row").hidden ? 1 : Math.max(1, Math.trunc(Number($("quantity").value)) || 1));

  async function buy(quantity) {
    const { who, attempts } = view;
    const before = shown;
    view.busy = true;
    view.came = null;
    say("sending");
    let attempt, outcome, token = who.token;
    const newest = () => (token = view.who?.id === who.id ? view.who.token : token);
    try {
      outcome = await attempts.alone(async () => {
        const last = attempts.get();
        if (last?.order && last.order !== before) return { order: last.order }; // another tab was quicker
        attempt = attempts.press(quantity, clock.now());
        attempts.update(attempt.key, { sent: true });
        const outcome = await sluice.claim(id, {
          key: attempt.key, quantity: attempt.quantity, token: newest, ticket: (again) => tickets.admits(say, again),
          signal, patience: Infinity, retry, onSend: () => say("sending"), onWait: sayWait,
        }).then(({ order_id: order }) => ({ order }), (problem) => {
          if (problem instanceof Problem) return { refused: problem };
          if (problem instanceof Lost) return { refused: problem.cause, unknown: true }; // signed out, or gone from the page
          throw problem;
        });
        // The order is what the attempt was for; a refusal leaves the key free for the next try.
        attempts.update(attempt.key, { sent: Boolean(outcome.unknown), order: outcome.order ?? limitOrder(outcome.refused) });
        attempts.ready();
        return outcome;
      });
    } finally {
      view.busy = false;
    }
    if (signal?.aborted) return;
    if (view.who?.id !== who.id) return onAttempt(); // signed out meanwhile
    view.note = null;
    if (outcome.refused) await refused(outcome.refused, { ...attempt, token });
    view.focus = Boolean(outcome.order) && (root.activeElement === $("buy") || document.activeElement === document.body);
    await onAttempt();
    live.refresh();
  }

  // retry is how many ms to wait before the same claim is sent again where the server did decide.
  function retry(problem) {
    const opens = Date.parse(problem.body?.opens_at ?? "") || Date.parse(view.sale.opens_at);
    // The server's clocks differ by a little, or ours from them.
    if (problem.code === "not_open" && opens - clock.now() < 3000) return Math.max(50, Math.min(opens - clock.now(), 1000));
    // What has just been reopened rests for half a second before it sells.
    const resting = clock.now() - reopenedAt < REST;
    if (["sold_out", "insufficient", "paused"].includes(problem.code) && resting) return 200 + Math.random() * 200;
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
    const until = state();
    switch (problem.code) {
      case "sold_out":
        if (view.sale.shows === "none") { // no reading says more than this answer
          view.note = { key: "soldOutNow", until };
          return;
        }
        soldOutAt = clock.now();
        view.sale = { ...view.sale, state: "sold_out", available: 0 };
        setTimeout(live.ask, COPY + Math.random() * COPY); // no event reports what has not changed
        view.note = null;
        return;
      case "insufficient":
        view.note = { key: "insufficient", wants: quantity, at: clock.now(), until };
        setTimeout(live.ask, COPY + Math.random() * COPY);
        return;
      case "paused": case "closed": case "not_open":
        view.note = { key: { paused: "pausedText", closed: "closedText", not_open: "early2" }[problem.code], until };
        return;
      case "buyer_limit":
        if (quantity > 1) view.note = { key: "limitMany" }; // fewer may be possible
        else view.note = limitOrder(problem) ? { key: "limitOrder" } : { key: "limit", label: "buyLimit" };
        return;
      case "forbidden":
        if (["denied", "not_eligible"].includes(problem.body.reason)) {
          view.note = { key: "notEligible", label: "buyNot" };
          return;
        }
        break;
      case "unauthenticated":
        view.note = { key: "expired" };
        view.mustSignIn = token;
        return;
      case "sale_not_found":
        view.note = { key: "noSale", label: "buyUnavailable" };
        return;
      case "idempotency_key_reused": // another tab's attempt, or another device's, was accepted with it
        view.attempts.put(null);
        if (await recover(key)) return;
    }
    view.note = { problem, until };
  }

  // resume goes on with an attempt whose answer never came: the page was loaded
  // again in the middle.
  const STALE = 10 * 60_000; // ms after which a buyer may have changed their mind
  async function resume() {
    const attempt = view.attempts?.get();
    if (!attempt?.sent || attempt.order || view.busy || !signedIn()) return;
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
    const { orders } = await sluice.ask(`/v1/orders?sale=${encodeURIComponent(id)}&limit=100`, { token: view.who.token }).catch(() => ({ orders: [] }));
    const order = orders.findLast((order) => !ended(order));
    if (order) view.attempts.update(key, { sent: false, order: order.order_id });
    return order;
  }

  const signedIn = () => Boolean(view.who && !view.who.expired && view.mustSignIn !== view.who.token);

  const hasLive = () => Boolean(shown && !(view.order && ended(view.order)));

  // mayBuyMore: with a live order in hand only where the limit leaves room.
  function mayBuyMore() {
    const limit = view.sale?.max_per_buyer;
    return !hasLive() || Boolean(view.order && (limit === null || view.order.quantity < limit) && view.note?.key !== "limitOrder");
  }

  const canBuy = () => signedIn() && state() === "open" && mayBuyMore() && !view.elsewhere && !view.note?.label;

  // ---- showing it

  function render() {
    const { sale } = view;
    const now = state();
    host.dataset.state = now;
    renderCountdown(sale, now);
    renderStock(sale, now);
    renderButton(now);
    renderStatus(now);
    $("status").dataset.kind = kind(now);
    // Who has bought needs no empty card beside the order.
    $("action").hidden = hasLive() && $("buy").hidden && $("login").hidden && !$("status").textContent;
    onRender?.(sale, now, view.came);
    panel.render();
  }

  const WARN = ["insufficient", "soldOutNow", "limit", "limitMany", "notEligible", "noSale"];

  // kind is how the status looks.
  function kind(now) {
    if (view.busy || view.elsewhere) return "busy";
    if (view.came) return "good";
    if (view.note?.problem) return "bad";
    return WARN.includes(view.note?.key) || view.lost && !view.note ? "warn" : now;
  }

  const SHOW_CLOSING = 3600_000; // ms before the end from which it is counted down

  function renderCountdown(sale, now) {
    let to = null;
    if (now === "upcoming") to = Date.parse(sale.opens_at);
    else if (sale?.closes_at && ["open", "sold_out"].includes(now) && Date.parse(sale.closes_at) - clock.now() < SHOW_CLOSING) to = Date.parse(sale.closes_at);
    $("countdown").hidden = to === null;
    if (to === null) return;
    $("countdown").classList.toggle("compact", now !== "upcoming");
    const left = split(to - clock.now());
    set(root, "countdown-label", t(now === "upcoming" ? "opensIn" : "closesIn"));
    set(root, "countdown-text", t("duration", left));
    $("days").hidden = left.d === 0;
    $("hours").hidden = now !== "upcoming" && left.d + left.h === 0;
    for (const [name, n] of [["days", left.d], ["hours", left.h], ["minutes", left.m], ["seconds", left.s]]) {
      const [digits, unit] = $(name).children;
      const text = name === "days" ? String(n) : String(n).padStart(2, "0");
      if (digits.textContent !== text) digits.textContent = text;
      if (unit.textContent !== t(name)) unit.textContent = t(name);
    }
  }

  function renderStock(sale, now) {
    const shows = (sale?.shows ? ["open", "sold_out"] : ["open", "sold_out", "paused"]).includes(now) &&
      sale.total !== 0 && sale.shows !== "none";
    $("stock").hidden = !shows;
    if (!shows) return;
    const n = now === "sold_out" ? 0 : sale.available;
    $("stock-bar").hidden = sale.total === null || n === null;
    $("stock-bar").max = sale.total ?? 1;
    $("stock-bar").value = n ?? 0;
    set(root, "stock-text", n === null ? t(sale.shows ? "inStock" : "unlimited") : t("left", { n: number(n), total: sale.total === null ? null : number(sale.total) }));
  }

  function renderButton(now) {
    const button = $("buy"), login = $("login");
    const link = loginLink();
    const wantsLogin = view.sale !== null && !signedIn() && ["upcoming", "open", "sold_out", "paused", "unavailable"].includes(now) && !view.busy;
    login.hidden = !(wantsLogin && link);
    if (link) login.href = link;
    // With a live order in hand and nothing more to buy, the panel has the buttons.
    button.hidden = ["unknown", "closed"].includes(now) && !view.busy || wantsLogin || (hasLive() && !view.busy && !mayBuyMore());
    const can = canBuy() && !view.busy;
    if (button.getAttribute("aria-disabled") !== String(!can)) button.setAttribute("aria-disabled", String(!can));
    set(root, "buy", label(now));
    const limit = view.sale?.max_per_buyer;
    $("quantity-row").hidden = button.hidden || limit === 1 || !["open", "upcoming"].includes(now);
    $("quantity").max = limit ?? "";
    $("quantity").disabled = view.busy;
  }

  function label(now) {
    if (view.busy || view.elsewhere) return t("busy");
    if (view.note?.label) return t(view.note.label);
    switch (now) {
      case "upcoming": return t("wait", { time: time(Date.parse(view.sale.opens_at), clock.now(), false) });
      case "open": return t(!view.order ? "buy" : ended(view.order) ? "buyAgain" : "buyMore");
      case "sold_out": return t("buySoldOut");
      case "paused": return t("buyPaused");
      case "closed": return t("buyClosed");
      default: return t("buyUnavailable");
    }
  }

  // status is what to tell: the key of a text, and its values.
  function status(now) {
    if (view.note?.wants) {
      const n = view.sale.available;
      if (view.sale.shows) return ["insufficientKept"];
      return n > 0 && n < view.note.wants ? ["insufficient", { n }] : ["insufficientAny"];
    }
    if (view.note) return [view.note.key, view.note.values];
    if (view.lost) return ["gone"];
    if (view.elsewhere) return ["otherTab"];
    if (hasLive() && !mayBuyMore()) return [];
    if (now === "closed") return ["closedText"];
    if (now === "unavailable") return ["unavailableText"];
    if (view.who?.expired) return ["expired"];
    if (now !== "unknown" && !signedIn()) return [loginLink() ? "signIn" : "signInBare"];
    if (now === "sold_out") return ["soldOut"];
    if (now === "paused") return ["pausedText"];
    if (now === "upcoming") return tickets.status() ?? ["early"];
    if (now === "open" && view.came && view.sale.shows) return ["backKept"];
    if (now === "open") return view.came && view.sale.available > 0 ? [view.came, { n: view.sale.available }] : ["ready"];
    return [];
  }

  // renderStatus shows it, and says it to those who listen: once for each thing
  // that happens, not for each second of a countdown.
  let told = "";
  function renderStatus(now) {
    const [key = "", values] = view.note?.problem ? ["refused"] : status(now);
    const text = view.note?.problem ? errorText(view.note.problem) : key && t(key, values);
    set(root, "status", text);
    const news = `${now} ${key}`;
    if (news !== told && key) announce(root, now === "open" && told.startsWith("upcoming ") ? `${t("nowOpen")} ${text}` : text);
    told = news;
  }

  // ---- every second

  const SAY_AT = [600, 60, 10]; // seconds before the opening that are read out
  let saidAt = Infinity;

  function tick() {
    if (view.sale) {
      const now = state();
      renderCountdown(view.sale, now);
      if (now === "upcoming") {
        const left = Math.ceil((Date.parse(view.sale.opens_at) - clock.now()) / 1000);
        const due = SAY_AT.find((s) => left <= s && s < saidAt && left > s - 5);
        if (due) {
          saidAt = due;
          announce(root, t("soon", { time: t("duration", split(left * 1000)) }));
        }
      }
      if (view.who && !view.who.expired && buyer()?.expired) onWho();
    }
    // The next full second of the server's clock, so that digits change on time.
    if (!signal?.aborted) setTimeout(tick, 1000 - (clock.now() % 1000) + 5);
  }

  // The clock is set again before the opening and after a sleep.
  async function keepTime() {
    await clock.sync().catch(() => {});
    if (signal?.aborted) return;
    if (view.sale) schedule();
    const left = view.sale ? Date.parse(view.sale.opens_at) - clock.now() : 0;
    setTimeout(keepTime, left > 40_000 ? Math.min(left - 20_000 - Math.random() * 15_000, 300_000) : 300_000);
  }

  document.addEventListener("visibilitychange", async () => {
    if (document.hidden) return;
    await clock.sync().catch(() => {});
    if (view.sale) schedule();
    render();
  }, { signal });

  $("buy").addEventListener("click", press);
  $("quantity").addEventListener("change", ({ target }) => { // what is seen is what is bought
    target.value = Math.min(Math.max(1, Math.trunc(Number(target.value)) || 1), Number(target.max) || Infinity);
    if (view.note?.wants && target.value <= units(view.sale)) view.note = null; // so many there are
    render();
  });
  onLanguage(() => {
    announce(root, ""); // it was said in the other language
    showBuyer(view.who, onWho);
    render();
  });
  onBuyer(onWho);
  await keepTime();
  if (signal?.aborted) return;
  onWho();
  live = follow(id, {
    onSale, pace,
    onGone: () => { view.sale = null; say("noSale"); },
    onLost: (lost) => { if (view.lost !== lost) { view.lost = lost; render(); } },
  });
  signal?.addEventListener("abort", () => {
    live.stop();
    off.forEach((cancel) => cancel());
    view.offAttempts?.();
    tickets.want({ state: "closed" }, null);
  });
  tick();
  resume();
}
