// The list of runs: it follows the store, and is used with keys. Without it, it is a page with links.

import { addKeys, showTimes, span } from "/static/app.js";
import { listen } from "/static/live.js";

const page = () => document.getElementById("runs");
const table = () => document.getElementById("rows");
const rowsOf = () => [...(table()?.querySelectorAll("tr") ?? [])];
const atTop = () => scrollY < 150;

// --- fetching what changed

const LISTING_EVERY = 2000; // milliseconds between two fetches of the whole list
let fetching = false;
let again = null; // what to look at after that: ids of rows, or true for the list
let listedAt = 0;

function changed(ids, any) {
  const shown = new Set(rowsOf().map((row) => row.dataset.run));
  const mine = ids.filter((id) => shown.has(id));
  const others = any || mine.length < ids.length;
  want(others ? true : mine);
}

function want(what) {
  if (what === true || again === true) again = true;
  else if (what.length) again = [...new Set([...(again ?? []), ...what])];
  if (!fetching && again !== null) work();
}

async function work() {
  fetching = true;
  try {
    while (again !== null && !document.hidden) {
      const what = again;
      again = null;
      if (what !== true) await fetchRows(what);
      else if (isFirstPage() && atTop() && !isBusy()) await fetchListing();
      else await Promise.all([fetchRows(rowsOf().map((row) => row.dataset.run)), fetchNews()]);
      if (what === true) await new Promise((resolve) => setTimeout(resolve, LISTING_EVERY));
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the network: the stream says so
  } finally {
    fetching = false;
  }
}

function isFirstPage() {
  const query = new URLSearchParams(location.search);
  return !query.has("before") && !query.has("after");
}

const isBusy = () => Boolean(document.activeElement?.closest("#filters"));

async function get(path) {
  const answer = await fetch(path, { headers: { "HX-Request": "true" } });
  return answer.ok ? answer.text() : null;
}

async function fetchListing() {
  const address = new URL(location.href);
  address.searchParams.set("quiet", "1");
  const asked = location.href;
  const text = await get(address.pathname + address.search);
  if (text === null) return;
  if (location.href !== asked) {
    again = true; // another filter was chosen meanwhile
    return;
  }
  listedAt = Date.now();
  const before = new Set(rowsOf().map((row) => row.id));
  morph(page(), text, "outerHTML");
  for (const row of rowsOf()) if (!before.has(row.id)) row.classList.add("fresh");
  htmx.process(page());
}

async function fetchRows(ids) {
  if (!ids.length) return;
  const text = await get(`/rows?${ids.map((id) => `id=${encodeURIComponent(id)}`).join("&")}`);
  if (text === null) return;
  const made = document.createElement("template");
  made.innerHTML = `<table><tbody>${text}</tbody></table>`;
  const found = new Set();
  for (const row of made.content.querySelectorAll("tr")) {
    found.add(row.dataset.run);
    const old = document.getElementById(row.id);
    if (old) morph(old, row.outerHTML, "outerHTML");
  }
  for (const row of rowsOf())
    if (ids.includes(row.dataset.run) && !found.has(row.dataset.run)) row.classList.add("gone");
}

async function fetchNews() {
  const button = document.getElementById("new");
  if (!button || !isFirstPage()) return;
  const address = new URL(location.href);
  address.searchParams.set("newest", page().dataset.newest);
  const text = ((await get(`/news${address.search}`)) ?? "").trim();
  button.textContent = text;
  button.hidden = !text;
}

function morph(element, text, morphStyle) {
  Idiomorph.morph(element, text, { morphStyle });
  refresh();
}

function refresh() {
  showTimes(page());
  showPicked();
  follower?.tell();
  mark();
}

document.addEventListener("click", async (event) => {
  if (event.target.id !== "new") return;
  scrollTo({ top: 0 });
  await fetchListing();
});

// --- live

const follower = listen({
  runs: changed,
  state(text, kind) {
    const button = document.getElementById("live");
    if (!button) return;
    button.querySelector(".said").textContent = text;
    button.dataset.kind = kind;
    button.setAttribute("aria-pressed", String(kind !== "off"));
  },
});

document.addEventListener("click", (event) => {
  if (event.target.closest("#live")) follower.toggle();
});

addEventListener("scroll", () => {
  const button = document.getElementById("new");
  if (button && !button.hidden && atTop() && Date.now() - listedAt > LISTING_EVERY) want(true);
});

setInterval(() => {
  if (document.hidden) return;
  for (const element of page()?.querySelectorAll("[data-since]") ?? [])
    element.textContent = span((Date.now() - Date.parse(element.dataset.since)) / 1000);
}, 1000);

// Nothing is stored when a process dies: what is under way is looked at now and then.
setInterval(() => {
  if (document.hidden || document.getElementById("live")?.dataset.kind !== "on") return;
  const running = rowsOf().filter((row) => row.dataset.status === "running");
  fetchRows(running.map((row) => row.dataset.run));
}, 5000);

// --- selection: two runs can be compared

const picked = new Set();

function showPicked() {
  for (const row of rowsOf()) {
    const is = picked.has(row.dataset.run);
    row.classList.toggle("sel", is);
    const box = row.querySelector(".pick");
    if (box) box.checked = is;
  }
  const bar = document.getElementById("picked");
  if (!bar) return;
  bar.hidden = !picked.size;
  if (!picked.size) return;
  const text = document.createElement("span");
  text.textContent = `${picked.size} selected`;
  const compare = document.createElement(picked.size === 2 ? "a" : "button");
  compare.className = "btn p";
  compare.textContent = "Compare";
  if (picked.size === 2) {
    const [b, a] = [...picked];
    compare.href = `/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;
  } else {
    compare.type = "button";
    compare.disabled = true;
    compare.title = "Select two runs";
  }
  const clear = document.createElement("button");
  clear.className = "btn";
  clear.type = "button";
  clear.textContent = "Clear";
  clear.addEventListener("click", () => {
    picked.clear();
    showPicked();
  });
  bar.replaceChildren(text, compare, clear);
}

function pick(row) {
  if (!row) return;
  if (!picked.delete(row.dataset.run)) picked.add(row.dataset.run);
  showPicked();
}

document.addEventListener("change", (event) => {
  if (!event.target.matches(".pick")) return;
  event.stopPropagation();
  pick(event.target.closest("tr"));
});

// --- keys: the row that is current is the one whose link has the focus

const currentRow = () => document.activeElement?.closest?.("#rows tr") ?? null;
let current = null; // the run of the row that was current last

function mark() {
  const row = currentRow();
  if (row) current = row.dataset.run;
}

function move(by) {
  const rows = rowsOf();
  if (!rows.length) return;
  const at = rows.findIndex((row) => row === currentRow());
  const last = at < 0 ? rows.findIndex((row) => row.dataset.run === current) : at;
  const next = last < 0 ? (by > 0 ? 0 : rows.length - 1) : last + by;
  const row = rows[Math.min(rows.length - 1, Math.max(0, next))];
  row.querySelector("th a").focus();
  row.scrollIntoView({ block: "nearest" });
  current = row.dataset.run;
}

function tab(by) {
  const tabs = [...document.querySelectorAll("#tabs a")];
  const at = tabs.findIndex((each) => each.hasAttribute("aria-current"));
  tabs[(at + by + tabs.length) % tabs.length]?.click();
}

function nextProblem() {
  const rows = rowsOf();
  const bad = (row) => /^(failed|orphaned|damaged)$/.test(row.dataset.status);
  const from = rows.findIndex((row) => row.dataset.run === current) + 1;
  const found = [...rows.slice(from), ...rows.slice(0, from)].find(bad);
  found?.querySelector("th a").focus();
  if (found) current = found.dataset.run;
}

addKeys({
  j: ["next run", () => move(1)],
  k: ["previous run", () => move(-1)],
  Enter: [
    "open the run",
    () => {
      if (document.activeElement?.matches("a, button, summary")) return false;
      const row = rowsOf().find((each) => each.dataset.run === current);
      if (!row) return false;
      row.querySelector("th a").click();
    },
  ],
  x: ["select the run", () => pick(currentRow() ?? rowsOf().find((row) => row.dataset.run === current))],
  n: ["next problem", nextProblem],
  "[": ["previous status", () => tab(-1)],
  "]": ["next status", () => tab(1)],
  o: ["older runs", () => document.getElementById("older")?.click()],
  l: ["follow the store, or stop", () => follower.toggle()],
  Escape: [
    "drop the selection",
    () => {
      picked.clear();
      showPicked();
    },
  ],
});

document.addEventListener("focusin", mark);
document.addEventListener("htmx:afterSettle", refresh);
