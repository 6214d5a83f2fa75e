// State, Evidence, Journal, Forks and Compare. Links work without it; it saves loading the page.

import { addKeys, memory, showTimes } from "/static/app.js";

// A link with data-panel shows a checkpoint beside the list.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-panel]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  history.pushState({ panel: link.dataset.panel }, "", link.href);
  await show(link.dataset.panel);
});

async function show(address) {
  const panel = document.getElementById("panel");
  panel.setAttribute("aria-busy", "true");
  mark(new URL(location.href).searchParams.get("at") ?? panel.dataset.newest);
  await htmx.ajax("GET", address, { target: panel, swap: "innerHTML" });
  panel.removeAttribute("aria-busy");
}

const first = document.getElementById("panel")?.dataset.panelNow;
if (first) history.replaceState({ ...history.state, panel: first }, "");
addEventListener("popstate", (event) => {
  if (event.state?.panel) show(event.state.panel);
});

function mark(at) {
  for (const link of document.querySelectorAll("#places a[data-panel]")) {
    const chosen = new URL(link.href).searchParams.get("at") === at;
    if (chosen) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

// The seq of an entry unfolds what it says below its row.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-entry]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const row = link.closest("tr");
  if (link.getAttribute("aria-expanded") === "true") {
    row.nextElementSibling.remove();
    link.setAttribute("aria-expanded", "false");
    return;
  }
  link.setAttribute("aria-expanded", "true");
  const below = document.createElement("tr");
  below.className = "below";
  const cell = document.createElement("td");
  cell.colSpan = row.cells.length;
  below.append(cell);
  row.after(below);
  await htmx.ajax("GET", link.dataset.entry, { target: cell, swap: "innerHTML" });
  showTimes(cell);
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-unfolds]");
  if (!button) return;
  const folded = button.closest("tbody").nextElementSibling;
  folded.hidden = !folded.hidden;
  button.setAttribute("aria-expanded", String(!folded.hidden));
});

// Who verifies is recorded: the name that was given with the last answer, if there is no token.
document.addEventListener("htmx:configRequest", (event) => {
  const name = memory.get("name");
  if (name && event.detail.elt.matches("[data-records]")) event.detail.parameters.by = name;
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.submit();
});

// --- live: run.js tells that the run has changed

// A part of the page as it is now; without an answer null: the stream says that it is lost.
async function part(address) {
  const answer = await fetch(address, { headers: { "HX-Request": "true" } }).catch(() => null);
  return answer?.ok ? answer.text().catch(() => null) : null;
}

// New rows of a list that begins with the newest; rows that a rollback left behind say so now.
async function refreshRows(list) {
  const rows = await part(list.dataset.liveRows);
  if (rows === null) return;
  const around = list.tagName === "TBODY" ? "table" : "ol";
  const fresh = new DOMParser().parseFromString(`<${around}>${rows}</${around}>`, "text/html");
  const newest = Number(list.querySelector("[data-seq]")?.dataset.seq ?? -1);
  const first = list.firstElementChild;
  for (const row of [...fresh.querySelectorAll("[data-seq]")]) {
    if (Number(row.dataset.seq) > newest) {
      row.classList.add("arrived");
      list.insertBefore(row, first);
      htmx.process(row);
    } else {
      const old = list.querySelector(`[data-seq="${row.dataset.seq}"]`);
      if (old) old.classList.toggle("left", row.classList.contains("left"));
    }
  }
  showTimes(list);
}

document.addEventListener("holdfast:run", () => {
  const list = document.querySelector("[data-live-rows]");
  if (list) refreshRows(list);
  const claims = document.getElementById("evidence");
  if (claims) refreshClaims(claims);
});

// The claims, unless they were asked for again meanwhile: a late answer could hide a check.
let asked = 0;

async function refreshClaims(claims) {
  if (claims.getAttribute("aria-busy") === "true" || claims.querySelector(".htmx-request")) return;
  const mine = (asked += 1);
  const text = await part(claims.dataset.live);
  if (text === null || asked !== mine) return;
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("evidence");
  Idiomorph.morph(claims, fresh, { morphStyle: "outerHTML" });
  htmx.process(document.getElementById("evidence"));
  showTimes();
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target?.id === "evidence") asked += 1;
});

function move(by) {
  const links = [...document.querySelectorAll("#places a[data-panel], .entries a[data-entry]")];
  if (!links.length) return false;
  let at = links.indexOf(document.activeElement);
  if (at < 0) at = links.findIndex((link) => link.hasAttribute("aria-current"));
  const next = links[Math.max(0, Math.min(links.length - 1, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

addKeys({
  j: ["next row", () => move(1)],
  k: ["previous row", () => move(-1)],
});

document.querySelector("#places [aria-current]")?.scrollIntoView({ block: "nearest" });
document.querySelector(".entries .sel")?.scrollIntoView({ block: "center" });
