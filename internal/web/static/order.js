// The page of one order.

import { buyer, loginLink, onBuyer, payLink, showBuyer } from "./buyer.js";
import { showClock } from "./foot.js";
import { base, clock, settled, sluice } from "./here.js";
import { OrderPanel } from "./orderpanel.js";
import { onLanguage, t, titleOf } from "./texts.js";

const $ = (id) => document.getElementById(id);
const id = decodeURIComponent(location.pathname.split("/").at(-1));
const sale = id.slice(0, id.lastIndexOf("."));

let note = "loading", who = null;

const signIn = () => (who?.expired ? "expired" : loginLink() ? "orderSignIn" : "orderSignInBare");

const panel = new OrderPanel({
  root: document, payLink,
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
  if (note !== "loading") settled();
}

// showItem says what was bought, where the sale is still known.
async function showItem() {
  $("item").textContent = titleOf(await sluice.sale(sale));
  render();
}

onLanguage(() => { $("said").textContent = ""; render(); });
onBuyer(onWho);
showItem().catch(() => {});
await clock.sync().catch(() => {});
onWho();
showClock(onLanguage);
