// The page of a sale: what it is, around the view that sells it.

import { buyer, loginLink, onBuyer, payLink, showBuyer } from "./buyer.js";
import { showClock } from "./foot.js";
import { discount, money, number, price, time } from "./format.js";
import { clock, settled } from "./here.js";
import { set as setIn } from "./orderpanel.js";
import { showSale } from "./saleview.js";
import { onLanguage, t, titleOf } from "./texts.js";

const $ = (id) => document.getElementById(id);
const set = (id, text) => setIn(document, id, text);
const facts = JSON.parse($("main").dataset.facts); // as the page was made

function onRender(sale, now, came, waits) {
  if (!waits) settled();
  showTime();
  set("badge", t(now));
  $("badge").hidden = now === "unknown";
  $("badge").dataset.state = now;
  renderFacts(sale ?? facts);
  if (sale) document.title = came ? `● ${t("backTitle")} ${titleOf(sale)}` : titleOf(sale);
  if ($("remind")) $("remind").hidden = now !== "upcoming";
}

// renderFacts sets right what the page says, should it be an old copy.
function renderFacts(sale) {
  set("title", titleOf(sale));
  const text = price(sale);
  set("price", text);
  $("price").parentElement.hidden = !text;
  $("list").hidden = !sale.list_price || !text;
  if (sale.list_price) set("list-price", money(sale.list_price));
  const off = discount(sale);
  $("off").hidden = off <= 0;
  set("off", `−${off}%`);
  const now = clock.now();
  set("opens", time(Date.parse(sale.opens_at), now));
  $("opens").dateTime = sale.opens_at;
  $("closes-row").hidden = !sale.closes_at;
  if (sale.closes_at) set("closes", time(Date.parse(sale.closes_at), now));
  $("total-row").hidden = sale.total === null;
  if (sale.total !== null) set("total", number(sale.total));
  $("limit-row").hidden = sale.max_per_buyer === null;
  if (sale.max_per_buyer !== null) set("limit", number(sale.max_per_buyer));
}

renderFacts(facts);
const showTime = showClock(onLanguage);
showSale({
  root: document, host: document.body, sale: $("main").dataset.sale,
  buyer, loginLink, payLink, onBuyer, showBuyer, onLanguage, onRender,
});
