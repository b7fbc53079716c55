// The page that is shown in place of one that does not exist: who is signed in,
// and the switch between the languages.

import { buyer, onBuyer, showBuyer } from "./buyer.js";
import { onLanguage } from "./texts.js";

const render = () => showBuyer(buyer(), render);

onLanguage(render);
onBuyer(render);
render();
