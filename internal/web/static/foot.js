// The server's time, at the foot of a page.

import { clockTime } from "./format.js";
import { clock } from "./here.js";
import { t } from "./texts.js";

// showClock shows it from now on, once it is known, and returns what shows it at once.
export function showClock(onLanguage) {
  const place = document.getElementById("clock");
  const show = () => {
    place.hidden = !clock.known();
    const text = t("serverTime", { time: clockTime(clock.now()) });
    if (place.textContent !== text) place.textContent = text;
  };
  const tick = () => {
    show();
    setTimeout(tick, 1000 - (clock.now() % 1000) + 5);
  };
  onLanguage(show);
  tick();
  return show;
}
