// The buyers' half of the API, for browsers and Node. A shop's backend has server.js, too.

export { Attempts, newKey, orderOf } from "./attempt.js";
export { Clock } from "./clock.js";
export { Lost, Problem } from "./http.js";
export { solve } from "./pow.js";
export { Sluice } from "./sluice.js";
