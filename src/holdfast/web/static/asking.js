// The number of open questions in the header follows the store, on every page.

import { memory } from "./app.js";
import { refresher } from "./live.js";

const EVERY = 2000; // milliseconds between two fetches
const LOOKED_AT = 20_000; // milliseconds after which it is fetched where nothing was heard

function show(text) {
  const [link, made] = [document.getElementById("inbox-link"), document.createElement("template")];
  made.innerHTML = text;
  const [old, next] = [link.querySelector("#asking"), made.content.firstElementChild];
  if (old?.textContent === next?.textContent) return;
  old?.remove();
  if (next) link.append(next);
}

const refresh = refresher(() => "/inbox/number", show, EVERY);
document.addEventListener("holdfast:runs", refresh);
setInterval(() => document.hidden || memory.get("live", "on") !== "on" || refresh(), LOOKED_AT);
