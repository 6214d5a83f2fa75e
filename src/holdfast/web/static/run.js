// The page of a run: moving among its steps, the axis in the reader's zone, and what changes.

import { addKeys, zone } from "/static/app.js";

const clock = (when) =>
  new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium", timeZone: zone() }).format(when);

function showClocks() {
  for (const text of document.querySelectorAll("[data-clock]")) {
    const shown = clock(Date.parse(text.dataset.clock));
    if (text.textContent !== shown) text.textContent = shown;
  }
}

document.addEventListener("holdfast:zone", showClocks);
document.addEventListener("htmx:afterSettle", showClocks);
showClocks();
