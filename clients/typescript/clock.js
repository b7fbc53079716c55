// The server's clock, as well as it can be known here. It is the server that
// opens a sale, so a countdown by the visitor's own clock would be wrong by as
// much as that one is.
//
// Each sample asks the server for its time and assumes that the answer was
// made half-way between question and arrival; the quickest sample is the best
// one, since it can be wrong by half of its way at most. Between samples the
// browser's monotonic clock counts, which is never adjusted.

const SAMPLES = 5;
const GOOD = 30; // ms to and fro, after which more samples bring little

export class Clock {
  offset = null; // server's time minus performance.now(), in ms
  doubt = Infinity; // half the way of the best sample, in ms

  // base is the server's address: "" for the page's own.
  constructor(base = "") { this.base = base; }

  known() { return this.offset !== null; }

  now() { return performance.now() + (this.offset ?? performance.timeOrigin); }

  // sync takes new samples. It fails only if there never was one.
  async sync() {
    let best = null;
    for (let i = 0, quick = 0; i < SAMPLES && quick < 2; i++) {
      const sample = await this.measure().catch(() => null);
      if (!sample) continue;
      if (sample.way < GOOD) quick++;
      if (!best || sample.way < best.way) best = sample;
    }
    if (best) [this.offset, this.doubt] = [best.offset, best.way / 2];
    else if (!this.known()) throw new Error("the server's time is unknown");
  }

  async measure() {
    const asked = performance.now();
    const signal = AbortSignal.timeout(5000);
    const answer = await fetch(`${this.base}/v1/time`, { cache: "no-store", redirect: "error", signal });
    const arrived = performance.now();
    const { server_time } = await answer.json();
    const way = arrived - asked;
    return { way, offset: Date.parse(server_time) - asked - way / 2 };
  }

  // at calls back when the server's clock has come to a time, not a moment
  // earlier, and never late by more than timers are. It returns how to call it off.
  at(time, callback) {
    let timer;
    const wait = () => {
      const left = time - this.now();
      if (left <= 0) callback();
      // Timers run short over hours and after sleep, so the last stretch is
      // measured again.
      else timer = setTimeout(wait, left > 2000 ? Math.min(left - 1000, 60_000) : Math.max(left, 1));
    };
    wait();
    return () => clearTimeout(timer);
  }
}
