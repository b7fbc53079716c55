// The server that this script came from, and its clock: also for a page of another origin.

import { Clock } from "./clock.js";
import { Sluice } from "./sluice.js";

const root = new URL("../..", import.meta.url); // of .../assets/{build}/here.js

// base is the server's address: "" or like "/flash" on its own pages.
export const base = (root.origin === location.origin ? "" : root.origin) + root.pathname.replace(/\/$/, "");
// pictureOf is the address of a small picture that a sale names.
export const pictureOf = ({ id }, name) =>
  (/^https:/.test(name) ? name : `${base}/s/${encodeURIComponent(id)}/pictures/${name}-640.jpg`);

export const sluice = new Sluice(base);
export const clock = new Clock(base);

// settled shows what is below the part of a page that has just got its contents (lang.js, pages.css).
export const settled = () => document.documentElement.classList.remove("settling");
