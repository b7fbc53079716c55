// Chooses the language before the page is painted, which is why this one file
// is no module: ?lang=, else what was chosen before, else the browser's own. It says
// to the styles what the page's script will show, too, so that its place is kept.
"use strict";
(() => {
  const known = (tag) => (/^zh/i.test(tag || "") ? "zh-CN" : /^en/i.test(tag || "") ? "en" : null);
  const stored = (key) => {
    try { return localStorage.getItem(key); } catch { return null; }
  };
  const asked = known(new URLSearchParams(location.search).get("lang"));
  const root = document.documentElement;
  root.lang = asked || known(stored("sluice_lang")) || (navigator.languages || []).map(known).find(Boolean) || "en";
  root.classList.add("js", "settling");
  if (stored("sluice_token") || location.hash.includes("token=")) root.classList.add("signed");
  setTimeout(() => root.classList.remove("settling"), 3000); // whatever the server does
  const title = document.querySelector("title[data-zh]");
  if (title) title.textContent = title.dataset[root.lang === "en" ? "en" : "zh"];
  if (asked) {
    try { localStorage.setItem("sluice_lang", asked); } catch { /* then it is not remembered */ }
  }
})();
