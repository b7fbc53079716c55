// The server that this script came from, and its clock: also for a page of another origin.

import { Clock } from "./clock.js";
import { Sluice } from "./sluice.js";

const root = new URL("../..", import.meta.url); // of .../assets/{build}/here.js

// base is the server's address: "" or like "/flash" on its own pages.
export const base = (root.origin === location.origin ? "" : root.origin) + root.pathname.replace(/\/$/, "");
export const sluice = new Sluice(base);
export const clock = new Clock(base);
