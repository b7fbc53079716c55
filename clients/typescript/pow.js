// Solves the proof of work that a sale may ask for before it hands out a
// ticket: a nonce such that SHA-256 of `challenge + "." + nonce` begins with
// `difficulty` zero bits. It works in a web worker made of this same file, so
// that the page stays smooth and no other script or host is needed; without
// workers it works in slices on the page itself.
//
//   import { solve } from "./pow.js";
//   const nonce = await solve(challenge, difficulty, (done) => bar.value = done, signal);
//
// onProgress, if given, is called now and then with the share of the expected
// work that is done: from 0 to just below 1, for luck has no end. An aborted
// signal (AbortSignal, optional) ends the work and rejects.

const K = Int32Array.from([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
], (x) => x | 0);
const START = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const W = new Int32Array(64);

// compress takes one block of 64 bytes into the state (FIPS 180-4, 6.2.2).
function compress(state, bytes, at) {
  for (let i = 0; i < 16; i++, at += 4) {
    W[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
  }
  for (let i = 16; i < 64; i++) {
    const x = W[i - 15], y = W[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    W[i] = (W[i - 16] + s0 + W[i - 7] + s1) | 0;
  }
  let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + W[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0;
  }
  state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}

function zeroBits(state) {
  let n = 0;
  for (const word of state) {
    if (word !== 0) return n + Math.clz32(word);
    n += 32;
  }
  return n;
}

// Search tries nonces 0, 1, 2... The blocks that all tries share are hashed once.
class Search {
  constructor(challenge, difficulty) {
    const text = new TextEncoder().encode(challenge + ".");
    this.difficulty = difficulty;
    this.nonce = 0;
    this.shared = new Int32Array(START);
    const whole = text.length - (text.length % 64);
    for (let at = 0; at < whole; at += 64) compress(this.shared, text, at);
    this.rest = text.subarray(whole);
    this.total = text.length;
    this.state = new Int32Array(8);
    this.tail = new Uint8Array(128);
  }

  // run makes this many tries and returns the nonce, or null.
  run(tries) {
    for (const end = this.nonce + tries; this.nonce < end; this.nonce++) {
      const digits = String(this.nonce);
      this.tail.fill(0);
      this.tail.set(this.rest);
      let at = this.rest.length;
      for (let i = 0; i < digits.length; i++) this.tail[at++] = digits.charCodeAt(i);
      this.tail[at] = 0x80;
      const blocks = at + 9 <= 64 ? 1 : 2;
      const bits = (this.total + digits.length) * 8;
      for (let i = 0; i < 4; i++) this.tail[blocks * 64 - 1 - i] = bits >>> (8 * i);
      this.state.set(this.shared);
      for (let i = 0; i < blocks; i++) compress(this.state, this.tail, i * 64);
      if (zeroBits(this.state) >= this.difficulty) return digits;
    }
    return null;
  }

  // done is the chance that a solver of average luck has found one by now.
  done() {
    return Math.min(1 - Math.exp(-this.nonce / 2 ** this.difficulty), 0.99);
  }
}

const SLICE = 20000; // tries between two looks at the world: some 20 ms

function check(challenge, difficulty) {
  if (typeof challenge !== "string" || challenge === "") throw new TypeError("challenge: want a text");
  if (!Number.isInteger(difficulty) || difficulty < 1 || difficulty > 30) throw new RangeError("difficulty: want 1 to 30 bits");
}

// startWorker starts one from this file; from another origin's page by a script of that page's
// own which imports it.
function startWorker() {
  const { href, origin } = new URL(import.meta.url);
  if (origin === (globalThis.location?.origin ?? origin)) return new Worker(href, { type: "module" });
  const own = URL.createObjectURL(new Blob([`import ${JSON.stringify(href)};`], { type: "text/javascript" }));
  try {
    return new Worker(own, { type: "module" });
  } finally {
    setTimeout(() => URL.revokeObjectURL(own), 10_000);
  }
}

// solve resolves to the nonce, as a string.
export function solve(challenge, difficulty, onProgress = () => {}, signal = undefined) {
  return new Promise((resolve, reject) => {
    check(challenge, difficulty);
    signal?.throwIfAborted();
    let worker;
    try {
      worker = startWorker();
    } catch {
      return resolve(onThisThread(challenge, difficulty, onProgress, signal));
    }
    const end = (settle, value) => {
      worker.terminate();
      signal?.removeEventListener("abort", aborted);
      settle(value);
    };
    const aborted = () => end(reject, signal.reason);
    signal?.addEventListener("abort", aborted);
    worker.onmessage = ({ data }) => {
      if (data.nonce !== undefined) end(resolve, data.nonce);
      else onProgress(data.done);
    };
    // A worker that cannot start (an old browser, a strict policy) is no reason to fail.
    worker.onerror = (event) => {
      event.preventDefault?.();
      end(resolve, onThisThread(challenge, difficulty, onProgress, signal));
    };
    worker.postMessage({ challenge, difficulty });
  });
}

async function onThisThread(challenge, difficulty, onProgress, signal) {
  const search = new Search(challenge, difficulty);
  for (;;) {
    const nonce = search.run(SLICE / 4);
    if (nonce !== null) return nonce;
    onProgress(search.done());
    await new Promise((wake) => setTimeout(wake, 0));
    signal?.throwIfAborted();
  }
}

if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope) {
  self.onmessage = ({ data }) => {
    const search = new Search(data.challenge, data.difficulty);
    for (;;) {
      const nonce = search.run(SLICE);
      if (nonce !== null) return self.postMessage({ nonce });
      self.postMessage({ done: search.done() });
    }
  };
}
