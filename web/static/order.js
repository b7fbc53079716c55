// The page of one order.

import { buyer, loginLink, onBuyer, showBuyer } from "./buyer.js";
import * as clock from "./clock.js";
import { clockTime } from "./format.js";
import { OrderPanel } from "./orderpanel.js";
import { onLanguage, t } from "./texts.js";

const $ = (id) => document.getElementById(id);
const id = decodeURIComponent(location.pathname.split("/").at(-1));
const sale = id.slice(0, id.lastIndexOf("."));

let note = "loading", who = null;

const panel = new OrderPanel({
  onOrder: (order, problem) => {
    note = order ? "" : problem.status === 404 ? "orderNone" : "orderSignIn";
    render();
  },
});

function onWho() {
  who = buyer();
  note = who && !who.expired ? "loading" : "orderSignIn";
  panel.follow(who && !who.expired ? id : null, who?.token);
  render();
}

function render() {
  showBuyer(who, onWho);
  $("status").textContent = note ? t(note) : "";
  const link = loginLink();
  $("login").hidden = !(link && ["orderSignIn", "orderNone"].includes(note));
  if (link) $("login").href = link;
  $("to-sale").hidden = !sale;
  $("to-sale").href = `/s/${encodeURIComponent(sale)}`;
  panel.render();
}

function tick() {
  if (clock.known()) {
    $("clock").hidden = false;
    $("clock").textContent = t("serverTime", { time: clockTime(clock.now()) });
  }
  setTimeout(tick, 1000 - (clock.now() % 1000) + 5);
}

onLanguage(render);
onBuyer(onWho);
await clock.sync().catch(() => {});
onWho();
tick();
