// The page of one order.

import { api, base, salePath } from "./api.js";
import { buyer, loginLink, onBuyer, showBuyer } from "./buyer.js";
import * as clock from "./clock.js";
import { clockTime } from "./format.js";
import { OrderPanel } from "./orderpanel.js";
import { onLanguage, t } from "./texts.js";

const $ = (id) => document.getElementById(id);
const id = decodeURIComponent(location.pathname.split("/").at(-1));
const sale = id.slice(0, id.lastIndexOf("."));

let note = "loading", who = null;

const signIn = () => (who?.expired ? "expired" : loginLink() ? "orderSignIn" : "orderSignInBare");

const panel = new OrderPanel({
  onOrder: (order, problem) => {
    note = order ? "" : problem.status === 404 ? "orderNone" : signIn();
    render();
  },
});

function onWho() {
  who = buyer();
  note = who && !who.expired ? "loading" : signIn();
  panel.follow(who && !who.expired ? id : null, who?.token);
  render();
}

function render() {
  showBuyer(who, onWho);
  $("status").textContent = note ? t(note) : "";
  const link = loginLink();
  $("login").hidden = !(link && ["orderSignIn", "orderNone", "expired"].includes(note));
  $("login").textContent = t(note === "orderNone" ? "otherAccount" : "signInShort");
  if (link) $("login").href = link;
  $("item").hidden = !panel.order;
  $("to-sale").hidden = !sale;
  $("to-sale").href = `${base}/s/${encodeURIComponent(sale)}`;
  panel.render();
}

// showItem says what was bought, where the sale is still known.
async function showItem() {
  $("item").textContent = (await api(salePath(sale))).title;
  render();
}

function showClock() {
  $("clock").hidden = !clock.known();
  $("clock").textContent = t("serverTime", { time: clockTime(clock.now()) });
}

function tick() {
  showClock();
  setTimeout(tick, 1000 - (clock.now() % 1000) + 5);
}

onLanguage(() => { $("said").textContent = ""; showClock(); render(); });
onBuyer(onWho);
showItem().catch(() => {});
await clock.sync().catch(() => {});
onWho();
tick();
