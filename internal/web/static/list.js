// The list of sales, by day and hour of the visitor's own clock.

import { buyer, onBuyer, showBuyer } from "./buyer.js";
import { day, discount, element, hour as hourOf, leftText, money, price as priceOf, short, time } from "./format.js";
import { base, clock, pictureOf, settled, sluice } from "./here.js";
import { sleep } from "./http.js";
import { onLanguage, t, titleOf } from "./texts.js";

const $ = (id) => document.getElementById(id);
const EVERY = 5000; // ms
const SOON = 24 * 3600_000; // ms before the opening from which it is counted down
let sales = null;

function tile(sale) {
  const price = element("span", { className: "price" }, element("strong", { text: priceOf(sale) }));
  if (sale.list_price && priceOf(sale)) price.append(" ", element("s", { text: money(sale.list_price) }));
  const off = discount(sale);
  if (off > 0) price.append(" ", element("span", { className: "off", text: `−${off}%` }));
  const shot = element("span", { className: "shot" });
  const [first] = sale.pictures ?? [];
  if (first) shot.append(element("img", { src: pictureOf(sale, first), width: 640, height: 640, alt: "", loading: "lazy" }));
  const badge = element("span", { className: "badge", text: t(sale.state) });
  badge.dataset.state = sale.state;
  const row = element("span", { className: "row" }, badge);
  if (sale.state === "open" && sale.available !== null) {
    row.append(element("span", { className: "few", text: leftText(sale, sale.available) }));
  } else if (sale.state === "upcoming") {
    const few = element("span", { className: "few" });
    few.dataset.opens = sale.opens_at;
    row.append(few);
  }
  return element("li", {}, element("a", { className: "tile", href: `${base}/s/${encodeURIComponent(sale.id)}` },
    shot, row, element("span", { className: "name", text: titleOf(sale) }), price));
}

// Sales that have begun come first, under one heading, and of those the ones
// where there is something to buy; the others by the day and the hour of their
// opening.
function groups(now) {
  const days = new Map();
  const rank = ({ opens_at, state }) => (Date.parse(opens_at) > now ? 2 : state === "sold_out" || state === "closed" ? 1 : 0);
  for (const sale of [...sales].sort((a, b) => rank(a) - rank(b))) {
    const opens = Date.parse(sale.opens_at);
    const begun = opens <= now;
    const date = begun ? t("already") : day(opens, now);
    const hour = begun ? "" : hourOf(opens);
    if (!days.has(date)) days.set(date, new Map());
    const hours = days.get(date);
    if (!hours.has(hour)) hours.set(hour, []);
    hours.get(hour).push(sale);
  }
  return days;
}

function render() {
  showBuyer(buyer(), render);
  if (!sales) return;
  $("empty").hidden = sales.length > 0;
  const sections = [...groups(clock.now())].map(([date, hours]) => {
    const section = element("section", { className: "day" }, element("h2", { text: date }));
    for (const [hour, list] of hours) {
      const heading = hour ? [element("h3", { text: hour })] : [];
      section.append(element("div", { className: "hour" }, ...heading, element("ul", { className: "tiles" }, ...list.map(tile))));
    }
    return section;
  });
  const focused = document.activeElement?.getAttribute?.("href");
  $("days").replaceChildren(...sections);
  count();
  if (focused?.startsWith(`${base}/s/`)) document.querySelector(`#days a[href="${CSS.escape(focused)}"]`)?.focus();
}

// count says of each sale to come when it opens, and in the last day how long that is.
function count() {
  const now = clock.now();
  for (const place of document.querySelectorAll("[data-opens]")) {
    const opens = Date.parse(place.dataset.opens);
    const left = opens - now;
    const text = left > SOON || left <= 0 ? t("wait", { time: time(opens, opens) }) // the day is above
      : `${t("opensIn")} ${short(left)}`;
    if (place.textContent !== text) place.textContent = text;
  }
}

let last = "";
async function run() {
  for (;;) {
    if (!document.hidden) {
      try {
        const list = await sluice.sales();
        const seen = JSON.stringify(list.map(({ server_time, ...rest }) => rest));
        sales = list;
        if (seen !== last) render();
        last = seen;
      } catch { /* the list stays as it is; the next round may be luckier */ }
      settled();
    }
    await sleep(EVERY * (0.75 + Math.random() / 2));
  }
}

setInterval(count, 1000);
onLanguage(render);
onBuyer(render);
await clock.sync().catch(() => {});
run();
