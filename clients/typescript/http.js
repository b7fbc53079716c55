// One request to the server. It ends in one of three ways: an answer, a Problem that the
// server stated, or Lost: whether the server has done what was asked is unknown.

export class Problem extends Error {
  constructor(body, status, retryAfter) {
    super(`${body.detail || body.title || "refused"} (${body.code ?? `HTTP ${status}`})`);
    Object.assign(this, { code: body.code ?? "", title: body.title, detail: body.detail, body, status, retryAfter });
  }
}

export class Lost extends Error {}

// passing are errors after which the same request may be sent again.
export const passing = (error) => error instanceof Lost ||
  error instanceof Problem && (error.status >= 500 || error.status === 429 || error.code === "order_queued");

const PATIENCE = 10_000; // ms

// Redirects are not followed: they would take tokens and orders elsewhere, or over a network in
// the clear, and have another server's answer believed.
export const redirect = "error";

// request asks for base + path and returns {body, headers}. A 5xx that is not ours comes from a
// proxy: the server behind it may have decided, so it counts as lost, as does a body that is no
// object.
export async function request(base, path, { token, signal, timeout = PATIENCE, ...options } = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const end = limit(signal, timeout);
  let answer, body;
  try {
    answer = await fetch(base + path, { ...options, headers, redirect, signal: end.signal });
    body = await answer.json();
  } catch (error) {
    if (answer && answer.status < 500 && !answer.ok) throw new Problem({}, answer.status, retryAfter(answer));
    throw new Lost(error.message, { cause: error });
  } finally {
    end.off();
  }
  if (answer.ok && typeof body === "object" && body !== null) return { body, headers: answer.headers };
  if (!ours(answer, body)) body = {};
  if (answer.ok || answer.status >= 500 && !body.code) throw new Lost(`HTTP ${answer.status}`);
  throw new Problem(body, answer.status, retryAfter(answer));
}

// ours reports whether the server itself has said why it refuses: gateways have codes, too.
const ours = (answer, body) => typeof body?.code === "string" &&
  answer.headers.get("Content-Type")?.startsWith("application/problem+json");

export const retryAfter = (answer) => Math.max(Number(answer.headers.get("Retry-After")), 0) || undefined;

// limit is a signal that comes with the caller's, or after so many ms from now or from the
// last call of heard. off ends the wait for both.
export function limit(signal, ms) {
  const both = new AbortController();
  const stop = () => both.abort(signal?.reason);
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => both.abort(new Error(`no answer within ${ms / 1000} s`)), ms);
  };
  heard();
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop);
  return { signal: both.signal, heard, off: () => { clearTimeout(timer); signal?.removeEventListener("abort", stop); } };
}

// sleep waits, and wakes early when the signal says so.
export const sleep = (ms, signal) => new Promise((wake) => {
  const done = () => { clearTimeout(timer); signal?.removeEventListener("abort", done); wake(); };
  const timer = setTimeout(done, ms);
  if (signal?.aborted) done();
  else signal?.addEventListener("abort", done);
});
