// The number of open questions in the header follows the store, on every page.

import { memory } from "./app.js";

const EVERY = 2000; // milliseconds between two fetches
const LOOKED_AT = 20_000; // milliseconds after which it is fetched where nothing was heard
let fetching = false;
let again = false;

async function refresh() {
  again = true;
  if (fetching) return;
  fetching = true;
  try {
    while (again && !document.hidden) {
      again = false;
      const answer = await fetch("/inbox/number");
      if (!answer.ok) return;
      show((await answer.text()).trim());
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the network: it is tried again
  } finally {
    fetching = false;
  }
}

function show(text) {
  const [link, made] = [document.getElementById("inbox-link"), document.createElement("template")];
  made.innerHTML = text;
  const [old, next] = [link.querySelector("#asking"), made.content.firstElementChild];
  if (old?.textContent === next?.textContent) return;
  old?.remove();
  if (next) link.append(next);
}

document.addEventListener("holdfast:runs", refresh);
setInterval(() => document.hidden || memory.get("live", "on") !== "on" || refresh(), LOOKED_AT);
