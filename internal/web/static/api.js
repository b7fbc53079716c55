// Requests to the server. A request ends in one of three ways: an answer, a
// Problem that the server stated, or Lost: the outcome is unknown.

export class Problem extends Error {
  constructor(body, status, retryAfter) {
    super(body.code ?? `HTTP ${status}`);
    Object.assign(this, { code: body.code ?? "", title: body.title, detail: body.detail, body, status, retryAfter });
  }
}

export class Lost extends Error {}

const PATIENCE = 10_000; // ms

// base is the path under which the shop serves Sluice: "" or like "/flash".
export const base = globalThis.document?.body?.dataset.base ?? "";

// api asks for a path of the API, without the base. A 5xx without a code of ours comes from a
// proxy: the server behind it may have decided, so it counts as lost.
export async function api(path, { token, ...options } = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer, body;
  try {
    answer = await fetch(base + path, { signal: AbortSignal.timeout(PATIENCE), ...options, headers });
    body = await answer.json();
  } catch (error) {
    if (answer && answer.status < 500 && !answer.ok) throw new Problem({}, answer.status);
    throw new Lost(error.message);
  }
  if (answer.ok) return body;
  if (answer.status >= 500 && !body.code) throw new Lost(`HTTP ${answer.status}`);
  throw new Problem(body, answer.status, Number(answer.headers.get("Retry-After")) || undefined);
}

export const salePath = (sale) => `/v1/sales/${encodeURIComponent(sale)}`;
export const orderPath = (order) => `/v1/orders/${encodeURIComponent(order)}`;

// sleep waits, and wakes early when the signal says so.
export const sleep = (ms, signal) => new Promise((wake) => {
  const timer = setTimeout(wake, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); wake(); }, { once: true });
});
