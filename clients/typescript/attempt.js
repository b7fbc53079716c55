// One attempt of a buyer to buy in a sale, kept in localStorage so that a
// reload, a lost reply, a second tab or a second click is the same attempt: they
// all send the same Idempotency-Key, and the same key gets the same order.
//
//   key       its Idempotency-Key
//   quantity  units asked for
//   since     when the button was pressed, server's time in ms
//   sent      a request may be under way, or its outcome is unknown
//   order     the id of the order it became
//   earlier   the id of the buyer's order before it, to be shown if it becomes none
//
// A refused attempt keeps its key, since the same key may be tried again; it
// ends by becoming an order.
//
// Tabs take turns by a lock where the browser has one. It has none on a page
// that came by plain HTTP from another machine; there, two tabs that are
// pressed within the milliseconds before the one learns of the other's attempt
// still use one key, since the key of the next attempt lies ready for all tabs
// from the moment that the page is loaded or the attempt before has ended. Two
// keys can only come of pressing within those milliseconds after that moment.

const memory = new Map(); // where there is no localStorage

export class Attempts {
  constructor(sale, buyer) {
    this.name = `sluice_attempt:${sale}:${buyer}`;
    this.next = `sluice_next:${sale}:${buyer}`; // the key that lies ready
  }

  get() { return read(this.name); }

  put(attempt) { return write(this.name, attempt); }

  // update changes the attempt of a key, unless another one has taken its place.
  update(key, change) {
    const last = this.get();
    if (!last || last.key === key) this.put({ ...last, key, ...change });
  }

  // press returns the attempt that a press of the button means: the one that is
  // not decided yet, else a new one.
  press(quantity, since) {
    const last = this.get();
    if (last && !last.order && (last.sent || last.quantity === quantity)) return last;
    return this.put({ key: this.ready(), quantity, since, earlier: orderOf(last) ?? undefined });
  }

  // ready returns the key of the next attempt, and sees to it that there is one.
  ready() {
    const key = read(this.next);
    return key && key !== this.get()?.key ? key : write(this.next, newKey());
  }

  // alone runs one tab at a time; a second tab waits for the first.
  async alone(run) {
    if (!navigator.locks) return run(); // the key alone protects
    return navigator.locks.request(this.name, run);
  }

  // busy reports whether some tab runs alone.
  async busy() {
    if (!navigator.locks) return false;
    return (await navigator.locks.query()).held.some(({ name, mode }) => name === this.name && mode === "exclusive");
  }

  // idle calls back when no tab runs alone any more: it has finished, or was closed.
  idle(then) {
    if (this.waits) return;
    this.waits = true;
    navigator.locks.request(this.name, { mode: "shared" }, () => {}).catch(() => {}) // a page that is left
      .then(() => { this.waits = false; then(); });
  }

  // onChange calls back when another tab has changed the attempt.
  onChange(changed) {
    const listener = ({ key }) => { if (key === this.name || key === null) changed(); };
    addEventListener("storage", listener);
    return () => removeEventListener("storage", listener);
  }
}

function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return memory.get(name) ?? null;
  }
}

function write(name, value) {
  memory.set(name, value);
  try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* then for this page only */ }
  return value;
}

// orderOf is the order to show of an attempt, or null.
export const orderOf = (attempt) => attempt?.order ?? attempt?.earlier ?? null;

// newKey returns 24 letters like no other key's. They are worth nothing without the buyer's
// token, so they need not be secret: Node 18 has no global crypto.
export function newKey() {
  const random = new Uint8Array(18);
  if (globalThis.crypto) crypto.getRandomValues(random);
  else random.forEach((_, i) => { random[i] = Math.random() * 256; });
  return btoa(String.fromCharCode(...random)).replaceAll("+", "-").replaceAll("/", "_");
}
