// What the server says of a sale, as it changes: by server-sent events, and by
// asking again and again where there are none.

import { sluice } from "./here.js";
import { Problem, sleep } from "./http.js";

const RETRY_EVENTS = 30_000; // ms until events are tried again after they failed

// follow calls onSale with every new reading of a sale, gone when the server
// says that there is no such sale, and lost(true or false) when the server stops
// and begins to answer. pace(sale) is how many ms to wait between two questions.
// It returns {refresh, ask, stop}: refresh asks unless events come, ask in any
// case.
export function follow(id, { onSale, onGone, onLost, pace }) {
  let sale = null, events = null, live = false, noEventsBefore = 0, wake = new AbortController(), stopped = false;

  const take = (news) => {
    const { description, descriptions } = sale ?? {}; // which a stream leaves out
    sale = { description, descriptions, ...news };
    onLost(false);
    onSale(sale);
  };

  async function ask() {
    try {
      take(await sluice.sale(id)); // asked, and seldom sent
    } catch (error) {
      if (error instanceof Problem && error.status === 404 && error.code) onGone(); // else a proxy says so
      else onLost(true);
    }
  }

  // Only a page that is looked at holds a connection: a browser has few for a
  // server, and many tabs would starve the one that wants to buy.
  async function listen() {
    if (events || document.hidden || performance.now() < noEventsBefore) return;
    const { signal } = events = new AbortController();
    try {
      for await (const news of sluice.stream(id, { signal })) {
        live = true;
        take(news);
      }
    } catch { /* ask meanwhile */ }
    if (signal.aborted) return;
    noEventsBefore = performance.now() + RETRY_EVENTS;
    mute();
    refresh();
  }

  function mute() {
    events?.abort();
    events = null;
    live = false;
  }

  function refresh() {
    wake.abort();
  }

  async function run() {
    while (!stopped) {
      if (!live) await ask();
      listen();
      wake = new AbortController();
      const wait = document.hidden ? 10_000 : pace(sale);
      await sleep(wait * (0.75 + Math.random() / 2), wake.signal); // a crowd must not ask in step
    }
    mute();
  }

  const onVisible = () => {
    if (document.hidden) mute();
    refresh();
  };
  const onOnline = () => { // what was connected before is not any more
    mute();
    refresh();
  };
  document.addEventListener("visibilitychange", onVisible);
  addEventListener("online", onOnline);
  run();
  return {
    refresh, ask,
    stop: () => { stopped = true; document.removeEventListener("visibilitychange", onVisible); removeEventListener("online", onOnline); refresh(); },
  };
}
