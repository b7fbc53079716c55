// Chooses the language before the page is painted, which is why this one file
// is no module: ?lang=, else what was chosen before, else the browser's own.
"use strict";
(() => {
  const known = (tag) => (/^zh/i.test(tag || "") ? "zh-CN" : /^en/i.test(tag || "") ? "en" : null);
  const remembered = () => {
    try { return localStorage.getItem("sluice_lang"); } catch { return null; }
  };
  const asked = known(new URLSearchParams(location.search).get("lang"));
  const root = document.documentElement;
  root.lang = asked || known(remembered()) || (navigator.languages || []).map(known).find(Boolean) || "en";
  root.classList.add("js");
  const title = document.querySelector("title[data-zh]");
  if (title) title.textContent = title.dataset[root.lang === "en" ? "en" : "zh"];
  if (asked) {
    try { localStorage.setItem("sluice_lang", asked); } catch { /* then it is not remembered */ }
  }
})();
