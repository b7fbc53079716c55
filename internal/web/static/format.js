// How money, times and durations look in the language of the moment.

import { lang, t } from "./texts.js";

// Digits behind the point by ISO 4217, as amounts have them. Browsers go by custom: their default for IDR and HUF is 0.
const unusual = {
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
  3: "BHD IQD JOD KWD LYD OMR TND",
  4: "CLF UYW",
};
const digitsOf = (currency) => Number(Object.keys(unusual).find((n) => unusual[n].split(" ").includes(currency)) ?? 2);

export function money({ amount, currency }) {
  const digits = digitsOf(currency);
  const unit = 10 ** digits;
  // ¥ alone is yuan: to readers of Chinese yen are JP¥.
  const currencyDisplay = currency === "CNY" ? "narrowSymbol" : "symbol";
  const style = { style: "currency", currency, currencyDisplay, maximumFractionDigits: digits };
  if (amount % unit) style.minimumFractionDigits = digits;
  try {
    return new Intl.NumberFormat(lang(), style).format(amount / unit);
  } catch { // a currency that this browser has never heard of
    return `${amount} ${currency}`;
  }
}

// price is what a sale's unit costs. A price of 0 is no amount: either there is nothing to pay, or the shop keeps its
// prices elsewhere, and nothing is said.
export const price = (sale) => (sale.price.amount ? money(sale.price) : sale.free ? t("free") : "");

export const number = (n) => new Intl.NumberFormat(lang()).format(n);

// leftText is how many units of a sale are left, in the way of shops of this language.
export const leftText = ({ total }, n) =>
  t("left", { n: number(n), percent: total === null ? null : Math.floor(100 * (1 - n / total)) });

// discount is how much a price is below the former one, in whole percent.
export const discount = ({ price, free, list_price: former }) => (former && (price.amount || free) ? Math.trunc(100 * (1 - price.amount / former.amount)) : 0);

// element makes one of the page: with properties, a text, or others in it.
export function element(name, { className, text, ...rest } = {}, ...children) {
  const made = Object.assign(document.createElement(name), rest);
  if (className) made.className = className;
  made.append(...(text === undefined ? children : [text]));
  return made;
}

const sameDay = (a, b) => a.toDateString() === b.toDateString();

// yearUnless names the year of a date, unless it is now's.
const yearUnless = (date, now) => (date.getFullYear() === new Date(now).getFullYear() ? {} : { year: "numeric" });

// zone names the zone of a time where it is not plain: within a day of where clocks change, since at the end of summer
// time an hour is there twice, and a sale of an hour would begin and end at the same time.
function zone(ms) {
  const offset = (at) => new Date(at).getTimezoneOffset();
  const day = 86400000;
  if (offset(ms - day) === offset(ms + day)) return "";
  const parts = new Intl.DateTimeFormat(lang(), { timeZoneName: "short" }).formatToParts(new Date(ms));
  return ` ${parts.find(({ type }) => type === "timeZoneName").value}`;
}

// time is a clock's time, with the day unless that is today, and its year
// unless that is this one.
export function time(ms, now, weekday = true) {
  const date = new Date(ms);
  const seconds = date.getSeconds() ? { second: "2-digit" } : {};
  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...seconds };
  const day = sameDay(date, new Date(now)) ? {} : { ...yearUnless(date, now), month: "short", day: "numeric", ...(weekday && { weekday: "short" }) };
  return new Intl.DateTimeFormat(lang(), { ...day, ...clock }).format(date) + zone(ms);
}

const wall = (ms) =>
  new Intl.DateTimeFormat(lang(), { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(new Date(ms));

export const clockTime = (ms) => wall(ms) + zone(ms);

// hour is the full hour before a time.
export const hour = (ms) => wall(ms).replace(/:\d\d:\d\d$/, ":00") + zone(ms);

// day is the name of a day: today, tomorrow, or its date, with the year unless
// that is this one.
export function day(ms, now) {
  const date = new Date(ms);
  const next = new Date(now);
  if (sameDay(date, next)) return t("today");
  next.setDate(next.getDate() + 1);
  if (sameDay(date, next)) return t("tomorrow");
  return new Intl.DateTimeFormat(lang(), { ...yearUnless(date, now), weekday: "long", month: "long", day: "numeric" }).format(date);
}

// split takes a duration apart. A second that has begun counts: 0 means over.
export function split(ms) {
  const all = Math.max(0, Math.ceil(ms / 1000));
  return { d: Math.floor(all / 86400), h: Math.floor(all / 3600) % 24, m: Math.floor(all / 60) % 60, s: all % 60 };
}

// short is 4:05 or 1:04:05.
export function short(ms) {
  const { d, h, m, s } = split(ms);
  const two = (n) => String(n).padStart(2, "0");
  const hours = d * 24 + h;
  return (hours ? [hours, two(m), two(s)] : [m, two(s)]).join(":");
}
