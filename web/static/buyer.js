// Who the visitor is. The shop's login hands over a buyer's token in the
// fragment, /s/SALE#token=..., which no server and no log ever sees; or a page
// of the same origin puts it into localStorage as "sluice_token". It is kept
// there for all tabs until it expires or the visitor signs out.
//
// The page reads the buyer's name and the expiry out of the token to show them
// and to keep attempts of different buyers apart. It cannot check the token:
// the server does, at every request.

import { now } from "./clock.js";
import { t } from "./texts.js";

const KEY = "sluice_token";
const LONG = 32; // letters of a name that are shown

const store = {
  get: () => { try { return localStorage.getItem(KEY); } catch { return kept; } },
  set: (token) => { kept = token; try { localStorage.setItem(KEY, token); } catch { /* then for this page only */ } },
  drop: () => { kept = null; try { localStorage.removeItem(KEY); } catch { /* there is none */ } },
};
let kept = null;

// takeToken moves a token from the address into the store.
function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get("token");
  if (!token) return;
  store.set(token);
  fragment.delete("token");
  const rest = fragment.toString();
  history.replaceState(null, "", location.pathname + location.search + (rest && `#${rest}`));
}

// buyer is {id, token}, or null. It is expired when the server's clock says so.
export function buyer() {
  const token = store.get();
  if (!token) return null;
  const claims = read(token);
  if (!claims?.sub) return null;
  return { id: claims.sub, token, expired: claims.exp * 1000 <= now() };
}

function read(token) {
  try {
    const text = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  } catch {
    return null;
  }
}

// loginLink fills the shop's template, or is null where there is none.
export function loginLink() {
  const template = document.body.dataset.login;
  return template ? template.replaceAll("{return}", encodeURIComponent(location.origin + location.pathname)) : null;
}

export function payLink(order) {
  const template = document.body.dataset.pay;
  return template
    ? template.replaceAll("{order}", encodeURIComponent(order))
      .replaceAll("{return}", encodeURIComponent(`${location.origin}/o/${encodeURIComponent(order)}`))
    : null;
}

export function signOut(changed) {
  store.drop();
  changed();
}

// onBuyer takes a token that has come, and calls back whenever another tab or a
// link brings or drops one.
export function onBuyer(changed) {
  takeToken();
  addEventListener("hashchange", () => { takeToken(); changed(); });
  addEventListener("storage", ({ key }) => { if (key === KEY || key === null) changed(); });
}

// showBuyer writes in the header who is signed in.
export function showBuyer(who, changed) {
  const place = document.getElementById("buyer");
  place.hidden = !who;
  if (!who) return;
  const out = document.createElement("button");
  out.type = "button";
  out.className = "link";
  out.textContent = t("signOut");
  out.addEventListener("click", () => signOut(changed));
  place.title = who.id;
  place.replaceChildren(t("signedIn", { name: who.id.length > LONG ? `${who.id.slice(0, LONG - 1)}…` : who.id }), " ", out);
}
