// Server-sent events, read from a fetch: so it works in Node, too, and notices a connection
// that is dead, for the server sends something at least every 15 seconds.

import { limit, Lost, Problem, redirect, retryAfter } from "./http.js";

const SILENCE = 60_000; // ms

// messages yields the data of each event until the server ends the stream, or the signal comes.
// onRetry gets the ms to wait before the next connection, if the server says so.
export async function* messages(url, { signal, onRetry = () => {} } = {}) {
  const end = limit(signal, SILENCE);
  let reader;
  try {
    const headers = { Accept: "text/event-stream" };
    const answer = await fetch(url, { headers, cache: "no-store", redirect, signal: end.signal });
    if (!answer.ok) throw new Problem(await answer.json().catch(() => null) ?? {}, answer.status, retryAfter(answer));
    reader = answer.body.getReader();
    const decoder = new TextDecoder();
    for (let rest = ""; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      end.heard();
      const events = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = events.pop();
      for (const event of events) {
        const lines = event.split(/\r?\n/);
        const retry = lines.find((line) => /^retry: ?\d+$/.test(line));
        if (retry) onRetry(Number(retry.slice(6)));
        const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
        if (data.length) yield data.join("\n");
      }
    }
  } catch (error) {
    if (signal?.aborted) return;
    throw error instanceof Problem ? error : new Lost(error.message, { cause: error });
  } finally {
    end.off();
    reader?.cancel().catch(() => {}); // the reader of these events has left
  }
}
