// Sends one attempt until it is decided. The same key all the time: whatever
// gets lost on the way, it is one purchase.

import { api, Lost, Problem, salePath, sleep } from "./api.js";

const FIRST = 500, LONGEST = 8000; // ms between two tries, where the server does not say

// claim resolves to {order} or {refused: Problem}. It reports its progress to
// say(key, values); a text with n is repeated as the seconds pass.
export async function claim({ sale, attempt, buyer, ticket, say, opensAt, resting, now }) {
  for (let tries = 0, unknown = false, again = false, renewed = false; ; tries++) {
    say("sending");
    let problem;
    try {
      const placed = await api(`${salePath(sale)}/orders`, {
        method: "POST", token: buyer.token, keepalive: true,
        headers: { "Idempotency-Key": attempt.key, "Content-Type": "application/json", ...await ticket(again) },
        body: JSON.stringify({ quantity: attempt.quantity }),
      });
      return { order: placed.order_id };
    } catch (error) {
      if (!(error instanceof Lost || error instanceof Problem)) throw error;
      problem = error;
    }
    if (problem.body?.reason?.startsWith("ticket_") && !renewed) {
      again = renewed = true; // this very claim was not accepted before, the server says
      continue;
    }
    if (problem instanceof Lost || problem.code === "outcome_unknown") {
      unknown = true;
      await pause("retryUnknown", tries, problem, say);
    } else if (problem.code === "overloaded") {
      await pause("retryBusy", tries, problem, say);
    } else if (problem.code === "unavailable") {
      await pause("retryUnavailable", tries, problem, say);
    } else if (problem.code === "rate_limited") {
      await pause("retryRate", 0, problem, say);
    } else if (problem.code === "not_open" && justBefore(problem, opensAt(), now())) {
      say("retryNotOpen");
      await sleep(Math.max(50, Math.min(opensAt() - now(), 1000)));
    } else if (["sold_out", "insufficient", "paused"].includes(problem.code) && resting()) {
      // What has just been reopened rests for half a second before it sells.
      await sleep(200 + Math.random() * 200);
    } else {
      return { refused: problem, unknown };
    }
  }
}

// justBefore: the server's clocks differ by a little, or ours from them.
function justBefore(problem, opensAt, now) {
  const opens = Date.parse(problem.body.opens_at ?? "") || opensAt;
  return opens - now < 3000;
}

// pause counts the seconds down. A random part keeps a crowd from coming back
// in one instant.
async function pause(text, tries, problem, say) {
  const asked = (problem.retryAfter ?? 0) * 1000;
  const base = Math.max(asked, Math.min(FIRST * 2 ** tries, LONGEST));
  let left = asked + (base - asked + FIRST) * (0.5 + Math.random() / 2);
  while (left > 0) {
    if (navigator.onLine === false) say("offline");
    else say(text, { n: Math.ceil(left / 1000) });
    const slice = Math.min(left, left % 1000 || 1000);
    await sleep(slice);
    left -= slice;
  }
}
