// Who the visitor is. The shop's login hands over a buyer's token in the
// fragment, /s/SALE?state=...#token=..., which no server and no log ever sees;
// or a page of the same origin puts it into localStorage as "sluice_token". It
// is kept there for all tabs until it expires or the visitor signs out. Where
// the shop that embeds Sluice knows its visitors by sessions (data-session), and
// none of these has come, the server says who the visitor is.
//
// A link can carry anybody's token. So a token signs in without a question only
// if it comes with the one-time state that this browser gave to the login, and
// does not change who is signed in. Of any other the page asks the visitor.
//
// The page reads the buyer's name and the expiry out of the token to show them
// and to keep attempts of different buyers apart. It cannot check the token:
// the server does, at every request.

import { newKey } from "./attempt.js";
import { base, clock, sluice } from "./here.js";
import { t } from "./texts.js";

const TOKEN = "sluice_token";
const STATE = "sluice_state"; // of the logins under way, one for all tabs
const DAY = 24 * 3600_000; // ms for which a state is good; a link gets one with at least half of that left
const LONG = 32; // letters of a name that are shown

const memory = new Map(); // where there is no localStorage
const store = {
  get: (key) => { try { return localStorage.getItem(key); } catch { return memory.get(key) ?? null; } },
  set: (key, value) => { memory.set(key, value); try { localStorage.setItem(key, value); } catch { /* then for this page only */ } },
  drop: (key) => { memory.delete(key); try { localStorage.removeItem(key); } catch { /* there is none */ } },
};

const $ = (id) => document.getElementById(id);
let asked = null; // {id, token} that has come and that the visitor has not agreed to yet
let session = null; // {id, token: null}: the shop's own
let before = null; // what had the focus before the question

// arrived reads a token out of the address, and takes it and the state away
// from there at once.
function arrived() {
  const fragment = new URLSearchParams(location.hash.slice(1)), query = new URLSearchParams(location.search);
  const token = fragment.get("token"), state = fragment.get("state") ?? query.get("state");
  if (token || state) {
    for (const part of [fragment, query]) part.delete("state");
    fragment.delete("token");
    const [search, hash] = [String(query), String(fragment)];
    history.replaceState(null, "", location.pathname + (search && `?${search}`) + (hash && `#${hash}`));
  }
  return { token, state };
}

// takeToken signs in by a token that has come, or has the page ask.
function takeToken() {
  const { token, state } = arrived();
  if (!token) return;
  const own = state !== null && state === store.get(STATE) && age(state) < DAY;
  if (own) store.drop(STATE);
  const who = claimsOf(token), present = buyer();
  if (!who || token === present?.token) return;
  if (own && (!present || present.id === who.sub)) {
    store.set(TOKEN, token);
    asked = null;
  } else {
    asked = { id: who.sub, token };
  }
  showQuestion();
}

// loginState is what a login has to bring back: when it was made, in ms, and
// something that cannot be guessed.
function loginState() {
  const last = store.get(STATE);
  if (last && age(last) < DAY / 2) return last;
  const state = `${Date.now().toString(36)}.${newKey()}`;
  store.set(STATE, state);
  return state;
}

const age = (state) => Math.abs(Date.now() - parseInt(state, 36)); // a clock that was set back makes it old, too

// showQuestion asks whether to sign in by the token that has come. The focus
// goes to "no", which changes nothing.
function showQuestion() {
  const place = $("ask");
  const appears = asked && place.hidden;
  place.hidden = !asked;
  if (!asked) return;
  const present = buyer();
  const change = present && present.id !== asked.id;
  $("ask-text").textContent = t(change ? "askChange" : "ask", { name: short(asked.id), present: change && short(present.id) });
  if (!appears) return;
  before = document.activeElement;
  $("ask-no").focus();
}

function answer(yes) {
  if (yes) store.set(TOKEN, asked.token);
  asked = null;
  showQuestion();
  before?.focus();
}

// buyer is {id, token}, or null. It is expired when the server's clock says so.
export function buyer() {
  const token = store.get(TOKEN);
  const claims = token && claimsOf(token);
  return claims ? { id: claims.sub, token, expired: claims.exp * 1000 <= clock.now() } : session;
}

// askSession asks the server who the visitor is, by the session of the shop.
async function askSession(changed) {
  if (!("session" in document.body.dataset) || store.get(TOKEN)) return;
  const { buyer_id: id } = await sluice.ask("/v1/buyer").catch((error) => (error.code === "unauthenticated" ? {} : { buyer_id: session?.id }));
  if (id === session?.id) return;
  session = id ? { id, token: null, expired: false } : null;
  changed();
}

// claimsOf returns what a token says, or null if it names no buyer.
export function claimsOf(token) {
  try {
    const text = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    const claims = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    return claims.sub && typeof claims.sub === "string" ? claims : null;
  } catch {
    return null;
  }
}

const short = (name) => (name.length > LONG ? `${name.slice(0, LONG - 1)}…` : name);

// loginLink fills the shop's template, or is null where there is none. The
// address to come back to carries the state.
export function loginLink() {
  const template = document.body.dataset.login;
  if (!template) return null;
  return template.replaceAll("{return}", encodeURIComponent(`${location.origin}${location.pathname}?state=${loginState()}`));
}

export function payLink(order) {
  const template = document.body.dataset.pay;
  return template
    ? template.replaceAll("{order}", encodeURIComponent(order))
      .replaceAll("{return}", encodeURIComponent(`${location.origin}${base}/o/${encodeURIComponent(order)}`))
    : null;
}

export function signOut(changed) {
  store.drop(TOKEN);
  changed();
}

// onBuyer takes a token that has come, and calls back whenever another tab, a
// link or the visitor's answer brings or drops one.
export function onBuyer(changed) {
  for (const [id, yes] of [["ask-no", false], ["ask-yes", true]]) {
    $(id).addEventListener("click", () => { answer(yes); changed(); });
  }
  $("ask").addEventListener("keydown", ({ key }) => { if (key === "Escape") $("ask-no").click(); });
  takeToken();
  askSession(changed);
  document.addEventListener("visibilitychange", () => document.hidden || askSession(changed));
  addEventListener("hashchange", () => { takeToken(); changed(); });
  addEventListener("storage", ({ key }) => { if (key === TOKEN || key === STATE || key === null) changed(); });
}

// showBuyer writes in the header who is signed in, and the question in the
// page's language.
export function showBuyer(who, changed) {
  showQuestion();
  const place = $("buyer");
  place.hidden = !who;
  if (!who) return;
  place.title = who.id;
  const name = document.createElement("span");
  name.textContent = t("signedIn", { name: short(who.id) });
  if (who === session) { // the shop's own pages end it
    place.replaceChildren(name);
    return;
  }
  const out = document.createElement("button");
  out.type = "button";
  out.className = "link";
  out.textContent = t("signOut");
  out.addEventListener("click", () => signOut(changed));
  place.replaceChildren(name, " ", out);
}
