// All that the pages say and that depends on the moment, in both languages;
// and the switch between them. A text is a string, or a function of values.

const held = (n) => (n === 1 ? "Your unit is" : `Your ${n} units are`);

const en = {
  // badges
  upcoming: "Upcoming", open: "On sale", paused: "Paused", sold_out: "Sold out", closed: "Over", unavailable: "Checking", unknown: "…",
  // countdown
  opensIn: "Opens in", closesIn: "Closes in", days: "d", hours: "h", minutes: "min", seconds: "s",
  duration: ({ d, h, m, s }) => [[d, "day"], [h, "hour"], [m, "minute"], [s, "second"]]
    .filter(([n]) => n > 0).slice(0, 2).map(([n, unit]) => `${n} ${unit}${n === 1 ? "" : "s"}`).join(" ") || "0 seconds",
  soon: ({ time }) => `The sale opens in ${time}.`,
  nowOpen: "The sale is open.",
  // stock
  left: ({ n }) => `${n} left`,
  free: "Free", unlimited: "No limit on units", inStock: "In stock",
  // the button
  buy: "Buy now", buyMore: "Buy another", buyAgain: "Buy again", wait: ({ time }) => `Opens ${time}`, busy: "One moment…",
  buySoldOut: "Sold out", buyPaused: "Paused", buyClosed: "Sale over", buyUnavailable: "Not available now",
  buyLimit: "Limit reached", buyNot: "Not for this account",
  // what is going on
  early: "Not open yet. Stay on this page: the button works from the first moment on.",
  early2: "Not open yet.",
  signIn: "To buy, sign in first. You come back to this page.",
  signInBare: "To buy, sign in at the shop first. It brings you back here.",
  signedIn: ({ name }) => `Signed in as ${name}`, signOut: "Sign out",
  ask: ({ name }) => `Sign in as ${name}?`, askChange: ({ name, present }) => `You are signed in as ${present}. Change to ${name}?`,
  expired: "Your sign-in has expired. Sign in again: nothing that you bought is lost.",
  ready: "Press the button to buy. You will see at once whether it is yours.",
  ticket: "Fetching your ticket for this sale…",
  proving: ({ percent }) => `Your browser is solving a small task, so that machines have no advantage: ${percent}%.`,
  ticketReady: "Your ticket is here. Ready for the opening.",
  ticketFailed: "Your ticket could not be fetched yet; trying again.",
  ticketNone: "There is no ticket for you at the moment.",
  sending: "Sent. Waiting for the answer…",
  otherTab: "Your request is under way in another tab of yours.",
  resuming: "Asking again about the request that you made before this page was loaded…",
  retryUnknown: ({ n }) =>
    `No answer, so the outcome is unknown. Asking again in ${n} s, as the same request: it cannot buy twice.`,
  retryBusy: ({ n }) => `The server is too busy; nothing is decided. Trying again in ${n} s.`,
  retryUnavailable: ({ n }) => `The sale is being checked; nothing is decided. Trying again in ${n} s.`,
  retryRate: ({ n }) => `Too many tries. Trying again for you in ${n} s.`,
  retryNotOpen: "It opens this very moment. Trying again…",
  offline: "You are offline. The page goes on by itself when you are back.",
  soldOut: "Sold out. Units may come back when an order is cancelled or not paid for. Leave this page open: it tells you at once.",
  back: ({ n }) => (n === 1 ? "A unit has come back. Buy it now!" : `${n} units have come back. Buy now!`),
  soldOutNow: "Sold out at the moment. Units may come back when an order is cancelled or not paid for: try again later.",
  backKept: "Units have come back. Buy now!",
  enough: ({ n }) => `There are enough now: ${n} left. Buy now!`,
  backTitle: "Available!",
  insufficient: ({ n }) => `Only ${n} left: fewer than you asked for. Choose a smaller quantity, or wait here: this page tells you when there are more.`,
  insufficientAny: "Fewer are left than you asked for. Choose a smaller quantity, or wait here: this page tells you when there are more.",
  insufficientKept: "Fewer are left than you asked for. Choose a smaller quantity.",
  pausedText: "The shop has paused this sale. It goes on by itself; this page tells you.",
  closedText: "This sale is over.",
  unavailableText: "The sale is being checked and goes on in a moment. Nothing is lost, and nothing is sold meanwhile.",
  limit: "You have bought as many as one buyer may, or too many of your orders here ended unpaid.",
  limitMany: "Together with what you already have, that is more than one buyer may buy. Choose a smaller quantity.",
  limitOrder: "You already have an order of this sale. Here it is.",
  notEligible: "This sale is not for this account.",
  limitShared: "Buyers with whom you share a limit have all of it.",
  limitMissing: "This sale needs to know more of your account: ask the shop.",
  refused: ({ code }) => `The server refused the request (${code})`,
  detail: ({ title, detail }) => `${title}: ${detail}`,
  noSale: "There is no such sale any more.",
  gone: "The server does not answer. This page keeps trying.",
  // orders
  s_queued: ({ n }) => (n === 1 ? "It is yours" : "They are yours"), s_pending: ({ n }) => (n === 1 ? "It is yours" : "They are yours"),
  s_late: "The time to pay is over", s_paid: "Paid", s_cancelled: "Cancelled", s_expired: "Not paid in time",
  s_paid0: "Confirmed", s_refunded0: "Ended",
  s_rejected: "Could not be delivered", s_refunded: "Refunded", s_refund_due: "Refund on its way",
  t_queued: ({ n }) => `${held(n)} held for you, and your order is being written down. Nothing is lost if you close this page.`,
  t_pending: ({ n }) => `${held(n)} held for you. Pay in time, or someone else can buy ${n === 1 ? "it" : "them"}.`,
  t_pendingShop: ({ n }) =>
    `${held(n)} held for you. Pay at the shop in time, or someone else can buy ${n === 1 ? "it" : "them"}.`,
  t_late: "Do not pay any more. If you have just paid, the confirmation may still be on its way.",
  t_paid: "Thank you. The shop takes it from here.",
  t_paid0: "Thank you. The shop takes it from here.", t_refunded0: "This order has ended.",
  t_cancelled: "This order was cancelled. There is nothing to pay.",
  t_expired: "It was not paid for in time, and is not held any more. There is nothing to pay.",
  t_rejected: ({ reason }) => `The shop could not go on with this order${reason ? `: ${reason}` : ""}. There is nothing to pay.`,
  t_refunded: "The shop has given the money back.",
  t_refund_due: "The payment came after the order had ended. The shop gives the money back.",
  leftToPay: ({ time }) => `${time} left to pay`,
  cancelling: "Cancelling…", cancelFailed: "It could not be cancelled at the moment. Try again.", cancelEnded: "The order has changed meanwhile.",
  orderSignIn: "Sign in to see this order.", orderSignInBare: "Sign in at the shop to see this order.", signInShort: "Sign in", otherAccount: "Use another account", orderNone: "There is no such order for this account.", loading: "Looking up…",
  next: ({ title, time }) => `${title}, ${time}`,
  // orders of a buyer
  noOrders: "You have no orders yet.", ordersSignIn: "Sign in to see your orders.", ordersSignInBare: "Sign in at the shop to see your orders.",
  cancelOrder: "Cancel", payNow: "Pay now", ordersFailed: "The server does not answer. Please try again in a moment.",
  // list
  today: "Today", tomorrow: "Tomorrow", already: "Now", serverTime: ({ time }) => `Server time ${time}`,
};

const zh = {
  upcoming: "即将开始", open: "抢购中", paused: "已暂停", sold_out: "已抢光", closed: "已结束", unavailable: "暂不可用", unknown: "…",
  opensIn: "距开始", closesIn: "距结束", days: "天", hours: "时", minutes: "分", seconds: "秒",
  duration: ({ d, h, m, s }) => [[d, "天"], [h, "小时"], [m, "分"], [s, "秒"]]
    .filter(([n]) => n > 0).slice(0, 2).map(([n, unit]) => `${n}${unit}`).join("") || "0秒",
  soon: ({ time }) => `距开始还有${time}。`,
  nowOpen: "抢购已经开始。",
  left: ({ n, percent }) => (percent === null ? `剩余 ${n} 件` : `已抢 ${percent}%`),
  free: "免费", unlimited: "数量不限", inStock: "有货",
  buy: "立即抢购", buyMore: "继续购买", buyAgain: "重新抢购", wait: ({ time }) => `${time} 开抢`, busy: "请稍候…",
  buySoldOut: "已抢光", buyPaused: "已暂停", buyClosed: "活动已结束", buyUnavailable: "暂不可用",
  buyLimit: "已达限购数量", buyNot: "本账号不可购买",
  early: "尚未开始。请停留在本页，开始的那一刻按钮立即可用。",
  early2: "尚未开始。",
  signIn: "购买前请先登录，登录后会回到本页。",
  signInBare: "购买前请先在商城登录，登录后会回到本页。",
  signedIn: ({ name }) => `已登录：${name}`, signOut: "退出",
  ask: ({ name }) => `要以 ${name} 的身份登录吗？`, askChange: ({ name, present }) => `你已登录：${present}。要换成 ${name} 吗？`,
  expired: "登录已过期，请重新登录。已抢到的订单不受影响。",
  ready: "点击按钮即可抢购，马上知道结果。",
  ticket: "正在领取本场活动的入场券…",
  proving: ({ percent }) => `正在进行安全验证：${percent}%。`,
  ticketReady: "入场券已领取，等待开抢。",
  ticketFailed: "入场券领取失败，正在重试。",
  ticketNone: "暂时没有入场券可领。",
  sending: "正在抢购，请稍候…",
  otherTab: "你正在另一个标签页抢购。",
  resuming: "正在查询刷新前的抢购结果…",
  retryUnknown: ({ n }) => `还没有收到结果。${n} 秒后自动重试，不会重复购买。`,
  retryBusy: ({ n }) => `当前人数过多，还没有结果。${n} 秒后自动重试。`,
  retryUnavailable: ({ n }) => `活动暂不可用，还没有结果。${n} 秒后自动重试。`,
  retryRate: ({ n }) => `操作太频繁，${n} 秒后自动重试。`,
  retryNotOpen: "马上就开始了，正在重试…",
  offline: "网络已断开，恢复后会自动继续。",
  soldOut: "已抢光。有人取消或未按时付款时，商品可能重新放出。请保持本页打开，有货会立刻通知你。",
  back: ({ n }) => `有 ${n} 件重新放出，快抢！`,
  soldOutNow: "目前已抢光。有人取消或未按时付款时，商品可能重新放出，请稍后再试。",
  backKept: "有商品重新放出，快抢！",
  enough: ({ n }) => `数量够了，现有 ${n} 件，快抢！`,
  backTitle: "有货了！",
  insufficient: ({ n }) => `只剩 ${n} 件，少于你要的数量。请减少数量，或留在本页等待，数量足够时会提示你。`,
  insufficientAny: "剩余数量少于你要的数量。请减少数量，或留在本页等待，数量足够时会提示你。",
  insufficientKept: "剩余数量少于你要的数量，请减少数量。",
  pausedText: "本场活动已暂停，恢复后本页会自动提示。",
  closedText: "本场活动已经结束。",
  unavailableText: "活动暂不可用，很快恢复。已抢到的订单不受影响，期间不会售出商品。",
  limit: "你已达到限购数量，或本场活动中未付款的失效订单过多。",
  limitMany: "加上已有订单，超过了限购数量，请减少数量。",
  limitOrder: "你在本场活动中已有订单：",
  notEligible: "本账号不能参加本场活动。",
  limitShared: "与你共用限额的买家已经买满。",
  limitMissing: "本场活动还需要你账号的其他信息，请联系商城。",
  refused: ({ code }) => `服务器拒绝了请求（代码 ${code}）`,
  detail: ({ title, detail }) => `${title}：${detail}`,
  noSale: "这个活动已不存在。",
  gone: "服务器没有响应，本页会继续尝试。",
  s_queued: "抢到了", s_pending: "抢到了", s_late: "付款时间已过", s_paid: "已付款", s_cancelled: "已取消", s_expired: "超时未付款",
  s_paid0: "已确认", s_refunded0: "已取消",
  s_rejected: "无法交付", s_refunded: "已退款", s_refund_due: "退款处理中",
  t_queued: "商品已为你保留，正在生成订单，可以放心离开本页。",
  t_pending: "商品已为你保留，请在截止前付款，逾期将重新放出。",
  t_pendingShop: "商品已为你保留，请在截止前到商城付款，逾期将重新放出。",
  t_late: "请不要再付款。如果刚刚已付款，请等待确认。",
  t_paid: "付款成功，请等待发货。",
  t_paid0: "订单已确认，请等待商城处理。", t_refunded0: "这个订单已取消。",
  t_cancelled: "订单已取消，无需付款。",
  t_expired: "未在截止前付款，订单已失效，无需付款。",
  t_rejected: ({ reason }) => `商城无法完成这个订单${reason ? `：${reason}` : ""}。无需付款。`,
  t_refunded: "款项已退回。",
  t_refund_due: "收到付款时订单已失效，款项将退还给你。",
  leftToPay: ({ time }) => `付款剩余时间 ${time}`,
  cancelling: "正在取消…", cancelFailed: "暂时无法取消，请重试。", cancelEnded: "订单状态已经变化。",
  orderSignIn: "登录后可查看这个订单。", orderSignInBare: "在商城登录后可查看这个订单。", signInShort: "登录", otherAccount: "换个账号登录", orderNone: "本账号没有这个订单。", loading: "正在查询…",
  next: ({ title, time }) => `${title}，${time} 开抢`,
  noOrders: "还没有订单。", ordersSignIn: "登录后可查看订单。", ordersSignInBare: "在商城登录后可查看订单。",
  cancelOrder: "取消订单", payNow: "去付款", ordersFailed: "服务器没有响应，请稍后再试。",
  today: "今天", tomorrow: "明天", already: "正在进行", serverTime: ({ time }) => `服务器时间 ${time}`,
};

export const texts = { en, "zh-CN": zh };

// What a refusal means to a buyer, by its reason or its code, where the page
// has nothing better to say.
const errors = {
  en: {
    bad_request: "The server did not understand the request", forbidden: "Not allowed", too_large: "The request is too large",
    risk: "You get no ticket for this sale at the moment", ticket: "Your ticket for this sale was not accepted. Please try again",
    challenge: "The small task before the ticket was not accepted. Please try again",
  },
  "zh-CN": {
    bad_request: "服务器无法理解请求", forbidden: "没有权限", too_large: "请求过大",
    risk: "目前无法领取本场活动的入场券", ticket: "入场券无效，请重试", challenge: "安全验证未通过，请重试",
  },
};

// lang is the language of the page; a shop's page may be in another one, or not say.
export const lang = () => (/^zh/i.test(document.documentElement.lang || navigator.language) ? "zh-CN" : "en");

// titleOf is what a sale is called in the language of the page.
export const titleOf = ({ title, titles }) => titles?.[lang() === "en" ? "en" : "zh"] || title;

// t is a text in the language of the moment.
export function t(key, values = {}) {
  const text = texts[lang()][key];
  return typeof text === "function" ? text(values) : text ?? key;
}

// errorText is a refusal in the language of the page. What the server adds in
// its own words is English, or the merchant's: a Chinese page shows those that
// are Chinese. A reason of its own says it all, but for that of a risk service.
export function errorText({ code, status, title, detail, body }) {
  const own = errors[lang()];
  const reason = body?.reason?.replace(/_.*/, "");
  const chinese = lang() !== "en";
  const text = own[reason] ?? own[code] ?? (!chinese && title || t("refused", { code: code || status }));
  const more = (reason === "risk" || !own[reason]) && (!chinese || /\p{Script=Han}/u.test(detail)) && detail;
  return more ? t("detail", { title: text, detail: more }) : `${text}${chinese ? "。" : "."}`;
}

// onLanguage makes the links switch without loading the page again, and calls
// back when the language was switched, in another tab too.
export function onLanguage(changed) {
  const links = document.querySelectorAll("[data-lang]");
  const show = () => {
    for (const link of links) {
      if (link.dataset.lang === lang()) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const choose = (tag) => {
    document.documentElement.lang = tag;
    const title = document.querySelector("title[data-zh]");
    if (title) document.title = title.dataset[tag === "en" ? "en" : "zh"];
    show();
    changed();
  };
  for (const link of links) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      try { localStorage.setItem("sluice_lang", link.dataset.lang); } catch { /* then it is not remembered */ }
      const here = new URL(location.href);
      if (here.searchParams.has("lang")) { // or a reload would undo it
        here.searchParams.delete("lang");
        history.replaceState(null, "", here);
      }
      choose(link.dataset.lang);
    });
  }
  addEventListener("storage", ({ key, newValue }) => {
    if (key === "sluice_lang" && newValue in texts) choose(newValue);
  });
  show();
}
