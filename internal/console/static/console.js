// The live parts of the console: figures, the chart and what is wrong, from one stream of server-sent events. Without
// script the pages show the same as of the moment when they were loaded, but for the chart.

const kinds = ["accepted", "sold_out", "limited", "not_now", "too_often", "refused", "failed"];
const chartOf = document.getElementById("chart");
const told = document.getElementById("curve");
const page = document.querySelector("[data-live]");
let curve = null;
let chart = null;

document.documentElement.classList.add("js");

// The curve as columns: seconds since 1970, one column for each kind, the p99 in milliseconds. A step that a server has
// not told of is a gap.
class Curve {
  constructor(message) {
    this.step = message.step_s;
    this.x = [];
    this.columns = [...kinds, "p99"].map(() => []);
    this.put(message);
  }

  // put writes over the steps from the message's first one on. False: it has other steps.
  put(message) {
    if (!message.from) return true;
    const from = Date.parse(message.from) / 1000;
    if (this.x.length === 0) this.step = message.step_s;
    if (message.step_s !== this.step) return false;
    let at = this.x.findIndex((second) => second >= from);
    if (at < 0) at = this.x.length;
    const before = this.x[at - 1];
    if (before !== undefined) { // nobody came in between
      for (let second = before + this.step; second < from; second += this.step) {
        this.set(at++, second, this.columns.map(() => 0));
      }
    }
    message.p99_ms.forEach((p99, i) => {
      const missing = message.missing[i] > 0;
      const row = kinds.map((kind) => (missing ? null : message.answers[kind][i]));
      this.set(at + i, from + i * this.step, [...row, missing || p99 === 0 ? null : p99]);
    });
    return true;
  }

  set(at, second, row) {
    this.x[at] = second;
    row.forEach((value, i) => { this.columns[i][at] = value; });
  }

  data() {
    return [this.x.map((second) => second), ...this.columns.map((column) => column.map((value, i) => {
      if (value === null || i === kinds.length) return value;
      return value / this.step;
    }))];
  }
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const colours = [
    colour("--good", "#17803d"), colour("--dim", "#667"), "#8a63d2", "#3b82c4", "#c58a00", "#d1495b", "#111",
  ];
  const axis = { stroke: colour("--dim", "#667"), grid: { stroke: colour("--line", "#ddd") } };
  const names = JSON.parse(chartOf.dataset.names);
  const series = names.slice(0, kinds.length).map((label, i) => ({
    label, stroke: colours[i], width: 2, points: { show: false }, scale: "rate", value: (_, v) => (v === null ? "–" : v.toFixed(v < 10 ? 1 : 0)),
  }));
  series.push({
    label: names[kinds.length], stroke: colour("--warn", "#a60"), width: 1, dash: [4, 4], points: { show: false }, scale: "ms",
    value: (_, v) => (v === null ? "–" : `${v.toFixed(0)} ms`),
  });
  const width = () => chartOf.clientWidth;
  chart = new uPlot({
    width: width(), height: 320, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"),
    scales: { rate: { range: (_, __, max) => [0, Math.max(max, 1)] }, ms: { range: (_, __, max) => [0, Math.max(max, 1)] } },
    axes: [axis, { ...axis, scale: "rate", size: 60 }, {
      ...axis, scale: "ms", side: 1, size: 60, grid: { show: false }, values: (_, all) => all.map((v) => `${v} ms`),
    }],
    series: [{ label: chartOf.dataset.time, value: (_, v) => (v === null ? "–" : new Date(v * 1000).toISOString().slice(11, 19)) }, ...series],
  }, curve.data(), chartOf);
  new ResizeObserver(() => chart.setSize({ width: width(), height: 320 })).observe(chartOf);
}

// shown draws the chart when there is something to draw, and again when that has changed.
function shown() {
  if (!chartOf || curve.x.length === 0) return;
  chartOf.hidden = false;
  if (chart) chart.setData(curve.data());
  else draw();
  curve.columns.forEach((column, i) => { // what never happened has no line
    const show = column.some((value) => value > 0);
    if (chart.series[i + 1].show !== show) chart.setSeries(i + 1, { show });
  });
}

// renew takes the parts of the page that the server makes from a page that it makes now.
async function renew() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const now = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (now && now.innerHTML !== part.innerHTML && !part.contains(document.activeElement)) {
      part.replaceWith(document.importNode(now, true));
    }
  }
  const newer = fresh.getElementById("curve");
  if (newer && curve && curve.step > 1) { // too long for steps of a second, which the stream brings
    curve = new Curve(JSON.parse(newer.textContent));
    shown();
  }
}

function show(name, value) {
  for (const place of document.querySelectorAll(`[data-figure="${name}"]`)) place.textContent = value;
}

function live() {
  const format = new Intl.NumberFormat(document.documentElement.lang);
  if (told) {
    curve = new Curve(JSON.parse(told.textContent));
    shown();
  }
  if (!page) return;
  const stream = new EventSource(page.dataset.live);
  let state = "";
  stream.onmessage = (event) => {
    const now = JSON.parse(event.data);
    for (const name of ["taken", "left", "stored", "backlog", "accepted_per_s", "claims_per_s", "in_flight"]) {
      if (now[name] !== null && now[name] !== undefined) show(name, format.format(now[name]));
    }
    show("p99", now.p99_ms ? `${format.format(Math.round(now.p99_ms))} ms` : "–");
    for (const bar of document.querySelectorAll("progress[data-sold]")) if (now.sold >= 0) bar.value = now.sold;
    show("sold", now.sold >= 0 ? `${now.sold}%` : "");
    document.body.classList.remove("stale");
    if (state !== "" && state !== now.signature) renew();
    state = now.signature;
    if (now.curve.from && !curve) location.reload(); // the first claim has come
    if (now.curve.from && curve && curve.put(now.curve)) shown();
  };
  stream.onerror = () => document.body.classList.add("stale");
  setInterval(renew, 10000);
}

// countdowns count to the times that they name.
function countdowns() {
  for (const place of document.querySelectorAll("[data-until]")) {
    const left = Math.round((Date.parse(place.dataset.until) - Date.now()) / 1000);
    if (left < 0) { place.textContent = ""; continue; }
    const part = (n) => String(n).padStart(2, "0");
    place.textContent = `${Math.floor(left / 3600)}:${part(Math.floor(left / 60) % 60)}:${part(left % 60)}`;
  }
}

live();
countdowns();
setInterval(countdowns, 1000);
