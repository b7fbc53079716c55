// <sluice-button sale="mug" token="..." login="/login?return={return}" pay="/pay?order={order}">: what
// the page of a sale does, on any page of a shop whose origin is in cors_origins:
//
//   <script type="module" src="https://buy.shop.example/assets/latest/button.js"></script>
//
// It speaks to the server that this script comes from. token is the buyer's; without one it shows
// a link to sign in. In login, {return} becomes the page's address; in pay, {order} the order's id.
// Attributes may change at any time. Each new state of the buyer's order is an event,
// "sluice-order", whose detail is the order. With the attribute picture it shows the
// sale's first one. Colours follow --accent, which the shop's page sets (pages.css).

import { claimsOf } from "./buyer.js";
import { clock, pictureOf } from "./here.js";
import { sleep } from "./http.js";
import { showSale } from "./saleview.js";
import { lang, titleOf } from "./texts.js";

const load = async (name) => {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: HTTP ${answer.status}`);
  return answer.text();
};

let parts; // [the elements, the styles], of all buttons

async function loadParts() {
  parts ??= Promise.all([load("./button.html"), load("./pages.css")]).then(([html, css]) => {
    const styles = new CSSStyleSheet();
    styles.replaceSync(css);
    return [html, styles];
  }, (error) => {
    parts = undefined;
    throw error;
  });
  return parts;
}

class SluiceButton extends HTMLElement {
  static observedAttributes = ["sale", "token", "login", "pay"];

  #changed = () => {};

  #end = null;

  get token() { return this.getAttribute("token") ?? ""; }

  set token(token) { this.setAttribute("token", token ?? ""); }

  connectedCallback() { this.#start(); }

  disconnectedCallback() { this.#end?.abort(); }

  attributeChangedCallback(name, old, value) {
    if (old === value || !this.isConnected) return;
    if (name === "sale") this.#start();
    else this.#changed();
  }

  async #start() {
    this.#end?.abort();
    const { signal } = this.#end = new AbortController();
    const sale = this.getAttribute("sale");
    if (!sale) return;
    let loaded = null;
    for (let wait = 1000; !loaded; wait = Math.min(2 * wait, 15_000)) {
      loaded = await loadParts().catch(() => null); // a server that restarts, or the rush itself
      if (!loaded) await sleep(wait * (0.5 + Math.random()), signal);
      if (signal.aborted) return;
    }
    const [html, styles] = loaded;
    const root = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [styles];
    root.innerHTML = `<div class="js">${html}<p id="said" class="sr" role="status" aria-live="polite"></p></div>`;
    const host = root.firstElementChild;
    const speak = () => { host.lang = lang(); };
    speak();
    this.toggleAttribute("data-dark-too", getComputedStyle(this).colorScheme.includes("dark"));
    await showSale({
      root, host, sale, signal,
      buyer: () => {
        const claims = this.token && claimsOf(this.token);
        return claims ? { id: claims.sub, token: this.token, expired: claims.exp * 1000 <= clock.now() } : null;
      },
      loginLink: () => this.#link("login"),
      payLink: (order) => this.#link("pay", order),
      onBuyer: (changed) => { this.#changed = changed; },
      onRender: (sale) => this.#picture(sale),
      showBuyer: () => {},
      onLanguage: (changed) => {
        const watch = new MutationObserver(() => { speak(); changed(); });
        watch.observe(document.documentElement, { attributes: true, attributeFilter: ["lang"] });
        signal.addEventListener("abort", () => watch.disconnect());
      },
      onOrder: (order) => {
        const news = `${order.order_id} ${order.status}`;
        if (news === this.told) return;
        this.told = news;
        this.dispatchEvent(new CustomEvent("sluice-order", { detail: order, bubbles: true }));
      },
    });
  }

  #picture(sale) {
    const place = this.shadowRoot.getElementById("picture"), [first] = sale?.pictures ?? [];
    place.hidden = !(first && this.hasAttribute("picture"));
    if (place.hidden) return;
    const src = pictureOf(sale, first);
    if (place.src !== new URL(src, location.href).href) place.src = src;
    place.alt = titleOf(sale);
  }

  // #link fills a template, or is null where there is none, or one that a browser would run.
  #link(name, order = "") {
    const template = this.getAttribute(name);
    if (!template) return null;
    const link = template.replaceAll("{order}", encodeURIComponent(order)).replaceAll("{return}", encodeURIComponent(location.href));
    return /^https?:$/.test(new URL(link, location.href).protocol) ? link : null;
  }
}

customElements.define("sluice-button", SluiceButton);
