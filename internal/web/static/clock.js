// The server's clock, as well as it can be known here. It is the server that
// opens a sale, so a countdown by the visitor's own clock would be wrong by as
// much as that one is.
//
// Each sample asks the server for its time and assumes that the answer was
// made half-way between question and arrival; the quickest sample is the best
// one, since it can be wrong by half of its way at most. Between samples the
// browser's monotonic clock counts, which is never adjusted.

import { base } from "./api.js";

const SAMPLES = 5;
const GOOD = 30; // ms to and fro, after which more samples bring little

let offset = null; // server's time minus performance.now(), in ms
let doubt = Infinity; // half the way of the best sample, in ms

export const known = () => offset !== null;
export const now = () => performance.now() + (offset ?? performance.timeOrigin);
export const error = () => doubt;

// sync takes new samples. It fails only if there never was one.
export async function sync() {
  let best = null;
  for (let i = 0, quick = 0; i < SAMPLES && quick < 2; i++) {
    const sample = await measure().catch(() => null);
    if (!sample) continue;
    if (sample.way < GOOD) quick++;
    if (!best || sample.way < best.way) best = sample;
  }
  if (best) [offset, doubt] = [best.offset, best.way / 2];
  else if (offset === null) throw new Error("the server's time is unknown");
}

async function measure() {
  const asked = performance.now();
  const answer = await fetch(`${base}/v1/time`, { cache: "no-store", signal: AbortSignal.timeout(5000) });
  const arrived = performance.now();
  const { server_time } = await answer.json();
  const way = arrived - asked;
  return { way, offset: Date.parse(server_time) - asked - way / 2 };
}

// at calls back when the server's clock has come to a time, not a moment
// earlier, and never late by more than the browser's timers are. It returns
// how to call it off.
export function at(time, callback) {
  let timer;
  const wait = () => {
    const left = time - now();
    if (left <= 0) callback();
    // Timers run short over hours and after sleep, so the last stretch is
    // measured again.
    else timer = setTimeout(wait, left > 2000 ? Math.min(left - 1000, 60_000) : Math.max(left, 1));
  };
  wait();
  return () => clearTimeout(timer);
}
