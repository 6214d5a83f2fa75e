// The page of a run: it follows the run, and is used with keys. Without it, it is a page with links.

import { addKeys, showTimes, zone } from "/static/app.js";
import { listen, refresher } from "/static/live.js";

// --- times of day, in the reader's zone

function showClocks() {
  const format = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium", timeZone: zone() });
  for (const text of document.querySelectorAll("[data-clock]")) {
    const shown = format.format(Date.parse(text.dataset.clock));
    if (text.textContent !== shown) text.textContent = shown;
  }
}

document.addEventListener("holdfast:zone", showClocks);
document.addEventListener("htmx:afterSettle", showClocks);

// --- the step that is selected

const links = () => [...document.querySelectorAll("#rows a.name")];
const drawer = () => document.getElementById("drawer");
const isOpen = () => drawer() !== null && !drawer().hidden;

function select(link) {
  for (const row of document.querySelectorAll("#rows tr.sel")) {
    row.classList.remove("sel");
    row.querySelector("a.name")?.removeAttribute("aria-current");
  }
  if (!link) return;
  link.closest("tr").classList.add("sel");
  link.setAttribute("aria-current", "true");
}

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id !== "drawer") return;
  const asked = event.detail.requestConfig?.elt;
  const before = document.querySelector("#rows tr.sel a.name");
  select(asked?.matches("a.name") ? asked : null);
  if (asked?.id === "close-drawer") before?.focus();
  else if (matchMedia("(max-width: 1000px)").matches) document.getElementById("close-drawer")?.focus();
});

// --- keys

function move(by) {
  const all = links();
  if (!all.length) return;
  const here = all.indexOf(document.activeElement);
  const selected = all.findIndex((link) => link.closest("tr").classList.contains("sel"));
  const from = here >= 0 ? here : selected >= 0 ? selected : by > 0 ? -1 : all.length;
  const next = all[Math.min(all.length - 1, Math.max(0, from + by))];
  next.focus();
  next.closest("tr").scrollIntoView({ block: "nearest" });
}

function turn(by) {
  const tabs = [...document.querySelectorAll("#tabs a")];
  const here = tabs.findIndex((tab) => tab.hasAttribute("aria-current"));
  tabs[(here + by + tabs.length) % tabs.length]?.click();
}

addKeys({
  j: ["next step", () => move(1)],
  k: ["step before", () => move(-1)],
  Enter: ["open the step", () => false],
  Escape: ["close the step", () => (isOpen() ? document.getElementById("close-drawer")?.click() : false)],
  "[": ["tab before", () => turn(-1)],
  "]": ["next tab", () => turn(1)],
  n: ["next problem", () => document.getElementById("next-problem")?.click()],
});

// --- what is unfolded: as many rows as are shown are asked for again

const shown = () => links().length + (document.getElementById("more") ? 0 : 200);

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.target?.id === "timeline") event.detail.parameters.shown = shown();
});

// --- live

const PARTS = ["run-header", "question-bar", "tabs", "timeline-tab", "graph-tab"];
const run = document.getElementById("run-header")?.dataset.run;

// What the reader asked for while the page was fetched again must not be undone by it.
let acts = 0;
let before = 0;
for (const name of ["htmx:beforeRequest", "htmx:afterSwap", "htmx:pushedIntoHistory"]) {
  document.addEventListener(name, () => (acts += 1));
}

// What the reader opened, typed or asked for stays as it is.
const callbacks = {
  beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
  beforeNodeMorphed: (node) => !(node.id === "result" && node.querySelector("[data-whole]")),
};

function address() {
  const found = new URL(location.href);
  found.searchParams.set("shown", shown());
  before = acts;
  return found;
}

function show(text) {
  if (acts !== before) {
    refresh();
    return;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const id of PARTS) {
    const [old, made] = [document.getElementById(id), fresh.getElementById(id)];
    if (!old || !made || old.isEqualNode(made)) continue;
    Idiomorph.morph(old, made, { morphStyle: "outerHTML", ignoreActiveValue: true, callbacks });
    htmx.process(document.getElementById(id));
  }
  showTimes();
  showClocks();
  follower?.tell();
  document.dispatchEvent(new CustomEvent("holdfast:run"));
}

const refresh = refresher(address, show);

const follower = run && listen({
  run,
  runs: (ids, any) => {
    if (any || ids.length) refresh();
  },
  state: (text, kind) => {
    const button = document.getElementById("live");
    if (!button) return;
    button.hidden = false;
    button.dataset.kind = kind;
    button.setAttribute("aria-pressed", String(kind !== "off"));
    button.querySelector(".said").textContent = text;
  },
});

document.addEventListener("click", (event) => {
  if (event.target.closest("#live")) follower?.toggle();
});

// Bars of what is under way grow with the clock.
setInterval(() => {
  if (!document.hidden && document.querySelector("#rows rect.run")) refresh();
}, 5000);

showClocks();
document.querySelector("#rows tr.sel")?.scrollIntoView({ block: "nearest" });
