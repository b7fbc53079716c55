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

const prefix = "sluice_attempt:";
const memory = new Map(); // where there is no localStorage

export class Attempts {
  constructor(sale, buyer) {
    this.name = `${prefix}${sale}:${buyer}`;
  }

  get() {
    try {
      return JSON.parse(localStorage.getItem(this.name));
    } catch {
      return memory.get(this.name) ?? null;
    }
  }

  put(attempt) {
    memory.set(this.name, attempt);
    try { localStorage.setItem(this.name, JSON.stringify(attempt)); } catch { /* then for this page only */ }
    return attempt;
  }

  update(change) {
    return this.put({ ...this.get(), ...change });
  }

  // press returns the attempt that a press of the button means: the one that is
  // not decided yet, else a new one.
  press(quantity, since) {
    const last = this.get();
    if (last && !last.order && (last.sent || last.quantity === quantity)) return last;
    return this.put({ key: newKey(), quantity, since, earlier: orderOf(last) ?? undefined });
  }

  // alone runs one tab at a time; a second tab waits for the first.
  async alone(run) {
    if (!navigator.locks) return run(); // no secure context: the key alone protects
    return navigator.locks.request(this.name, run);
  }

  // busy says whether some tab is at it.
  async busy() {
    if (!navigator.locks) return false;
    return (await navigator.locks.query()).held.some(({ name }) => name === this.name);
  }

  // onChange calls back when another tab has changed the attempt.
  onChange(changed) {
    const listener = ({ key }) => { if (key === this.name || key === null) changed(); };
    addEventListener("storage", listener);
    return () => removeEventListener("storage", listener);
  }
}

// orderOf is the order to show of an attempt, or null.
export const orderOf = (attempt) => attempt?.order ?? attempt?.earlier ?? null;

function newKey() {
  const random = crypto.getRandomValues(new Uint8Array(18));
  return btoa(String.fromCharCode(...random)).replaceAll("+", "-").replaceAll("/", "_");
}
