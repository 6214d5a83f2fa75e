// What changes runs: forms in a dialog, JSON that is checked while it is typed, the name of who does
// it. Without scripts, the same forms are pages.

import { addKeys, memory, showTimes, toast } from "./app.js";

// --- the dialog: links with data-dialog open the form of their page in it

function dialog() {
  let found = document.getElementById("action");
  if (!found) {
    found = document.createElement("dialog");
    found.id = "action";
    found.setAttribute("aria-label", "Action");
    document.body.append(found);
    found.addEventListener("click", (event) => {
      if (event.target === found) found.close();
    });
    found.addEventListener("close", () => found.replaceChildren());
  }
  return found;
}

async function open(href) {
  const shown = dialog();
  let answer;
  try {
    answer = await fetch(href, { headers: { "hx-request": "true" } });
  } catch {
    toast("The server can't be reached.");
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const form = page.getElementById("action-form");
  if (!form) {
    toast(page.querySelector("main h1")?.textContent ?? "That is not possible now.");
    return;
  }
  shown.replaceChildren(document.adoptNode(form));
  window.htmx?.process(shown);
  prepare(shown);
  if (!shown.open) shown.showModal();
  shown.querySelector("textarea, select, input:not([type=hidden]), button, a")?.focus();
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const link = event.target.closest("a[data-dialog]");
  if (link) {
    event.preventDefault();
    link.closest("details")?.removeAttribute("open");
    open(link.href);
    return;
  }
  const back = event.target.closest("[data-close]");
  if (back?.closest("dialog")) {
    event.preventDefault();
    back.closest("dialog").close();
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.removeAttribute("open");
  }
});

// A refusal is shown in the form that was sent.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, target } = event.detail;
  if (xhr.status < 400 || !target?.matches?.("#action-form, .asked")) return;
  const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
  if (page.querySelector("#action-form, .asked")) {
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  } else {
    toast(page.querySelector("main h1")?.textContent ?? "That did not work.");
  }
});

document.addEventListener("htmx:sendError", () => toast("The server can't be reached."));

document.addEventListener("htmx:afterSwap", (event) => prepare(event.detail.elt ?? document));

// The page that shows what was done is loaded next, and says so.
document.addEventListener("holdfast:done", (event) => {
  document.getElementById("action")?.close();
  try {
    sessionStorage.setItem("holdfast.done", event.detail.value);
  } catch {
    toast(event.detail.value);
  }
});

function tellWhatWasDone() {
  try {
    const text = sessionStorage.getItem("holdfast.done");
    sessionStorage.removeItem("holdfast.done");
    if (text) toast(text);
  } catch {
    // Storage is switched off: the page itself shows it.
  }
}

// --- JSON is checked while it is typed

function check(area) {
  const text = area.value.trim();
  let wrong = "";
  const isFree = area.dataset.json === "free" && !/^[[{"]/.test(text);
  if (text && !isFree) {
    try {
      JSON.parse(text);
    } catch (error) {
      wrong = `Not JSON: ${error.message}`;
    }
  }
  area.setCustomValidity(wrong);
  let said = area.parentElement.querySelector(".wrong");
  if (!said && wrong) {
    said = document.createElement("p");
    said.className = "wrong";
    area.after(said);
  }
  if (said) said.textContent = wrong;
  if (wrong) area.setAttribute("aria-invalid", "true");
  else area.removeAttribute("aria-invalid");
}

document.addEventListener("input", (event) => {
  if (event.target.matches?.("textarea[data-json]")) check(event.target);
});

document.addEventListener("keydown", (event) => {
  const area = event.target;
  if (event.key !== "Tab" || event.shiftKey || !area.matches?.("textarea.editor")) return;
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (area.dataset.tabbed === "off") return;
  event.preventDefault();
  area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
});

// Escape leaves the editor, and Tab leads on from there.
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.matches?.("textarea.editor")) {
    event.target.dataset.tabbed = "off";
  }
});

// --- who does it: asked once, and kept in this browser

function prepare(within) {
  for (const field of within.querySelectorAll?.("[data-remember]") ?? []) {
    if (!field.value) field.value = memory.get(field.dataset.remember);
  }
  showTimes(within.querySelectorAll ? within : document);
}

document.addEventListener("submit", (event) => {
  for (const field of event.target.querySelectorAll("[data-remember]")) {
    if (field.value.trim()) memory.set(field.dataset.remember, field.value.trim());
  }
});

function linkMine() {
  const name = memory.get("name");
  for (const link of document.querySelectorAll("a[data-mine]")) {
    if (name) link.href = link.href.replace("mine=1", `mine=${encodeURIComponent(name)}`);
  }
}

addKeys({
  a: [
    "answer the question, or the first action",
    () => document.querySelector(".ask-bar a[data-dialog], a.btn.p[data-dialog]")?.click(),
  ],
});

prepare(document);
linkMine();
tellWhatWasDone();
