// Sends one attempt to buy until it is decided. The same key all the time: whatever gets lost on
// the way, it is one purchase.

import { Lost, Problem, request, sleep } from "./http.js";

const FIRST = 500, LONGEST = 8000; // ms between two tries, where the server does not say

// UNDECIDED are answers that say nothing about earlier tries.
const UNDECIDED = ["outcome_unknown", "overloaded", "unavailable", "rate_limited"];

export async function claim(base, path, {
  key, quantity = 1, meta, token, ticket, address, signal, patience = 60_000,
  onSend = () => {}, onWait = () => {}, retry = () => {},
}) {
  const until = Date.now() + patience;
  let unknown = false; // an earlier try may have been accepted
  const bearer = async () => {
    try {
      return await (typeof token === "function" ? token() : token);
    } catch (cause) { // the shop's, over the same network: it may be there at the next try
      throw new Lost(`no token: ${cause?.message}`, { cause });
    }
  };
  for (let tries = 0, again = false, renewed = false, stale = false; ; tries++) {
    onSend();
    let problem, now, sent = false;
    try {
      now = await bearer();
      const admits = typeof ticket === "function" ? await ticket(again) : ticket;
      sent = true;
      const { body, headers } = await request(base, path, {
        method: "POST", token: now, signal, keepalive: true,
        headers: {
          "Idempotency-Key": key, "Content-Type": "application/json", ...(admits && { "Sluice-Ticket": admits }),
          ...(address && { "X-Forwarded-For": address }),
        },
        body: JSON.stringify({ quantity, meta }),
      });
      if (typeof body.order_id !== "string") throw new Lost("the answer names no order");
      return { ...body, key, replayed: headers.get("Idempotent-Replayed") === "true" };
    } catch (error) {
      if (!(error instanceof Lost || error instanceof Problem)) throw error;
      problem = error;
    }
    again = false;
    if (typeof ticket === "function" && problem.body?.reason?.startsWith("ticket_") && !renewed) {
      again = renewed = true; // this very claim was not accepted before, the server says
      continue;
    }
    unknown ||= sent && problem instanceof Lost || problem.code === "outcome_unknown";
    let wait = retry(problem);
    if (wait === undefined) {
      if (problem.status === 401 && !stale && await bearer().catch(() => now) !== now) { // it was renewed meanwhile
        stale = true;
        continue;
      }
      if (problem instanceof Problem && problem.status !== 429 && !UNDECIDED.includes(problem.code)) {
        if (unknown && (problem.status === 401 || !problem.code)) throw lost(problem);
        throw problem;
      }
      stale = false;
      wait = pause(problem, problem.code === "rate_limited" ? 0 : tries);
    }
    if (!signal?.aborted && Date.now() + wait <= until) await countdown(wait, problem, onWait, signal);
    else wait = Infinity;
    if (signal?.aborted || wait === Infinity) {
      throw unknown ? lost(problem) : problem;
    }
  }

  // lost: the answer is of one who does not know what became of earlier tries, or none came.
  function lost(cause) {
    return Object.assign(new Lost("the outcome is unknown; the same key gets the same answer", { cause }), { key });
  }
}

// pause is how long to wait. A random part keeps a crowd from coming back in one instant.
function pause(problem, tries) {
  const asked = (problem.retryAfter ?? 0) * 1000;
  const base = Math.max(asked, Math.min(FIRST * 2 ** tries, LONGEST));
  return asked + (base - asked + FIRST) * (0.5 + Math.random() / 2);
}

// countdown reports each second that is left.
async function countdown(left, problem, onWait, signal) {
  while (left > 0 && !signal?.aborted) {
    onWait(problem, left);
    const slice = Math.min(left, left % 1000 || 1000);
    await sleep(slice, signal);
    left -= slice;
  }
}
