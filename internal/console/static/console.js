// The live parts of the console: figures, the chart and what is wrong. Figures come by server-sent events; what the server
// makes of a page is taken from the page as it makes it then. Without script the pages show the same as of the moment
// when they were loaded, but for the chart.

const kinds = ["accepted", "sold_out", "limited", "not_now", "too_often", "refused", "failed"];
const mostPoints = 1200;
const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]; // between ticks
const chartOf = document.getElementById("chart");
const page = document.querySelector("[data-live]");
const renews = document.querySelector("[data-renew]");
const format = new Intl.NumberFormat(document.documentElement.lang);
let curve = null;
let chart = null;
let rebuild = false; // the curve is to be taken from the server's page as a whole

document.documentElement.classList.add("js");

// The curve as columns: seconds since 1970, claims a second of each kind, the p99 in milliseconds, and whether a server
// has not told what it counted.
class Curve {
  constructor(message) {
    this.step = message.step_s;
    this.x = [];
    this.columns = [...kinds, "p99", "silent"].map(() => []);
    this.put(message);
  }

  // put writes over the steps from the message's first one on. False: they do not follow those that are there.
  put(message) {
    if (!message.from) return true;
    const from = Date.parse(message.from) / 1000;
    const last = this.x.at(-1);
    if (message.step_s !== this.step || (last !== undefined && from > last + this.step)) return false;
    let at = this.x.findIndex((second) => second >= from);
    if (at < 0) at = this.x.length;
    message.p99_ms.forEach((p99, i) => {
      this.x[at + i] = from + i * this.step;
      const row = kinds.map((kind) => message.answers[kind][i] / this.step);
      [...row, p99 || null, message.missing[i] > 0 ? 1 : null].forEach((v, n) => { this.columns[n][at + i] = v; });
    });
    return this.x.length <= mostPoints;
  }

  data() { return [[...this.x], ...this.columns.map((column) => [...column])]; }
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const colours = [
    colour("--good", "#17803d"), colour("--dim", "#667"), "#8a63d2", "#3b82c4", "#c58a00", "#d1495b", colour("--text", "#111"),
  ];
  const axis = { stroke: colour("--dim", "#667"), grid: { stroke: colour("--line", "#ddd") } };
  const names = JSON.parse(chartOf.dataset.names);
  const points = { show: false };
  const round = (unit) => (_, v) => (v === null || v === undefined ? "–" : format.format(Math.round(v)) + unit);
  const fromZero = { range: (_, __, max) => [0, Math.max(max, 1)] };
  chart = new uPlot({
    width: chartOf.clientWidth, height: 320, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"),
    scales: { rate: fromZero, ms: fromZero, silent: { range: [0, 1] } },
    axes: [{
      ...axis, incrs: seconds, space: 80, values: (_, all, __, ___, step) => all.map((s) => {
        const at = new Date(s * 1000).toISOString();
        return step < 3600 ? at.slice(11, 19) : at.slice(5, 16).replace("T", " ");
      }),
    }, { ...axis, scale: "rate", size: 60 }, {
      ...axis, scale: "ms", side: 1, size: 60, grid: { show: false }, values: (_, all) => all.map((v) => `${v} ms`),
    }],
    series: [
      {
        label: chartOf.dataset.time,
        value: (_, v) => (v === null ? "–" : new Date(v * 1000).toISOString().slice(11, 19)),
      },
      ...kinds.map((_, i) => ({ label: names[i], stroke: colours[i], width: 2, points, scale: "rate", value: round("") })),
      { label: names.at(-2), stroke: colour("--warn", "#a60"), width: 1, dash: [4, 4], points, scale: "ms", value: round(" ms") },
      { label: names.at(-1), fill: "rgba(128, 128, 128, .25)", width: 0, points, scale: "silent", value: () => "" },
    ],
  }, curve.data(), chartOf);
  new ResizeObserver(() => chart.setSize({ width: chartOf.clientWidth, height: 320 })).observe(chartOf);
}

// shown draws the chart when there is something to draw, and again when that has changed.
function shown() {
  if (!chartOf || !curve || curve.x.length === 0) return;
  chartOf.hidden = false;
  if (chart) chart.setData(curve.data());
  else draw();
  curve.columns.forEach((column, i) => { // what never happened has no line
    const show = column.some((value) => value > 0);
    const label = chart.root.querySelectorAll(".u-series")[i + 1];
    if (label.hidden !== show) return;
    label.hidden = !show;
    chart.setSeries(i + 1, { show });
  });
}

function load(from) {
  const told = from.getElementById("curve");
  if (told) curve = new Curve(JSON.parse(told.textContent));
}

// renew takes the parts that the server makes from a page that it makes now; an error's page has what is wrong.
async function renew() {
  let fresh;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.status === 401) { // the session has ended: the form for signing in
      location.reload();
      return;
    }
    fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return; // the next time
  }
  for (const part of document.querySelectorAll("[data-part]")) {
    const now = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (part.dataset.part === "did") part.remove(); // it was said once
    if (!now || now.innerHTML === part.innerHTML) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    part.replaceChildren(...document.importNode(now, true).childNodes);
    if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  }
  if (fresh.getElementById("curve") && (rebuild || !curve || curve.step > 1)) {
    rebuild = false;
    load(fresh);
    shown();
  }
}

// soon renews after a moment of this page's own, so that not all ask at once.
function soon() { setTimeout(renew, Math.random() * 1500); }

function show(name, value) {
  for (const place of document.querySelectorAll(`[data-figure="${name}"]`)) place.textContent = value;
}

let stream = null;
let signature = "";

function listen() {
  stream?.close();
  stream = null;
  if (document.hidden) return;
  stream = new EventSource(page.dataset.live);
  stream.onmessage = (event) => {
    const now = JSON.parse(event.data);
    document.body.classList.toggle("stale", now.stale);
    if (signature !== "" && signature !== now.signature) soon();
    signature = now.signature;
    if (now.stale) return;
    const figure = (name, unit = "") => {
      show(name, now[name] === null || now[name] === undefined ? "–" : format.format(Math.round(now[name])) + unit);
    };
    ["taken", "left", "stored", "backlog", "accepted_per_s", "claims_per_s", "in_flight"].forEach((name) => figure(name));
    figure("p99_ms", " ms");
    for (const [status, orders] of Object.entries(now.orders?.by_status ?? {})) show(status, format.format(orders));
    for (const at of document.querySelectorAll('[data-part="orders"] .hint time')) {
      if (now.orders) at.textContent = `${now.orders.at.slice(0, 19).replace("T", " ")} UTC`;
    }
    for (const bar of document.querySelectorAll("progress[data-sold]")) if (now.sold >= 0) bar.value = now.sold;
    show("sold", now.sold >= 0 ? `${now.sold}%` : "");
    if (!now.curve?.from) return;
    if (curve?.x.length === 0) soon(); // for the sums
    if (curve?.put(now.curve)) {
      shown();
    } else if (!rebuild) {
      rebuild = true;
      soon();
    }
  };
  stream.onerror = () => {
    document.body.classList.add("stale");
    if (stream?.readyState === EventSource.CLOSED) setTimeout(listen, 3000 + Math.random() * 5000);
  };
}

// countdowns count to the times that they name, by the server's clock.
const serverNow = Date.parse(document.querySelector("footer time")?.dateTime ?? "");
const ahead = Number.isNaN(serverNow) ? 0 : serverNow - Date.now();

function countdowns() {
  for (const place of document.querySelectorAll("[data-until]")) {
    const left = Math.round((Date.parse(place.dataset.until) - Date.now() - ahead) / 1000);
    const part = (n) => String(n).padStart(2, "0");
    place.textContent = left < 0 ? "" : `${Math.floor(left / 3600)}:${part(Math.floor(left / 60) % 60)}:${part(left % 60)}`;
  }
}

load(document);
shown();
countdowns();
setInterval(countdowns, 1000);
if (renews) setInterval(() => { if (!document.hidden) renew(); }, 9000 + Math.random() * 2000);
if (page) {
  listen();
  document.addEventListener("visibilitychange", () => {
    rebuild = !document.hidden;
    if (rebuild) renew();
    listen();
  });
}
