// What every page has: theme, time zone, keys, copying. No page needs it to be read.

import { copied, toast } from "./toasts.js";

export { toast };

export const memory = {
  get(name, otherwise = "") {
    try {
      return localStorage.getItem(`holdfast.${name}`) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(`holdfast.${name}`, value);
    } catch {
      // Storage is switched off: it is forgotten with the page.
    }
  },
};

// --- theme

function setUpTheme() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    memory.set("theme", root.dataset.theme);
    document.dispatchEvent(new CustomEvent("holdfast:theme"));
  });
}

// --- time: relative under a day, absolute after, both in the title

export const zone = () => (memory.get("zone") === "utc" ? "UTC" : undefined);

export function absolute(when) {
  return new Intl.DateTimeFormat("sv-SE", {
    dateStyle: "short",
    timeStyle: "medium",
    timeZone: zone(),
  }).format(when);
}

export function clockTime(when) {
  return new Intl.DateTimeFormat("sv-SE", { timeStyle: "short", timeZone: zone() }).format(when);
}

// A length of time in its two largest units, as the command line has it.
export function span(seconds) {
  if (seconds < 60) return `${Math.max(0, seconds).toFixed(1)} s`;
  const whole = Math.round(seconds);
  for (const [name, length, small, rest] of [
    ["d", 86400, "h", 3600],
    ["h", 3600, "m", 60],
  ])
    if (whole >= length)
      return `${Math.floor(whole / length)} ${name} ${Math.floor((whole % length) / rest)} ${small}`;
  return `${Math.floor(whole / 60)} m ${whole % 60} s`;
}

export function relative(when, now = Date.now()) {
  const seconds = Math.round((now - when) / 1000);
  const past = Math.abs(seconds);
  if (past >= 86400) return absolute(when);
  let text = "now";
  if (past >= 3600) text = `${Math.floor(past / 3600)} h`;
  else if (past >= 60) text = `${Math.floor(past / 60)} m`;
  else if (past >= 2) text = `${past} s`;
  if (text === "now") return text;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

export function showTimes(within = document) {
  for (const element of within.querySelectorAll("time[datetime]")) {
    const when = Date.parse(element.dateTime);
    if (Number.isNaN(when)) continue;
    const text = element.hasAttribute("data-absolute") ? absolute(when) : relative(when);
    if (element.textContent !== text) element.textContent = text;
    element.title = absolute(when);
  }
}

function setUpZone() {
  const button = document.getElementById("zone");
  const label = () => {
    const minutes = -new Date().getTimezoneOffset();
    const hours = Math.floor(Math.abs(minutes) / 60);
    const rest = Math.abs(minutes) % 60 ? `:${String(Math.abs(minutes) % 60).padStart(2, "0")}` : "";
    button.textContent = zone() || !minutes ? "UTC" : `UTC${minutes < 0 ? "−" : "+"}${hours}${rest}`;
    button.setAttribute("aria-label", `Time zone: ${button.textContent}`);
  };
  button.addEventListener("click", () => {
    memory.set("zone", zone() ? "local" : "utc");
    label();
    showTimes();
    document.dispatchEvent(new CustomEvent("holdfast:zone"));
  });
  label();
}

// --- copying: a button with data-copy, or beside an element that it names

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  copied(button, text);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button.dataset.copy, button);
});

// --- keys: pages add theirs with addKeys; the dialog lists all of them

const keys = new Map();
let begun = "";

export function addKeys(added) {
  for (const [key, [label, action]] of Object.entries(added)) keys.set(key, { label, action });
}

const isTyping = (target) =>
  target.isContentEditable ||
  /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
  (target.tagName === "INPUT" && !/^(checkbox|radio|button|submit)$/.test(target.type));

const areOn = () => memory.get("keys") !== "off";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target)) {
    const closes = event.target.tagName !== "TEXTAREA" && event.target.closest("dialog");
    if (event.key === "Escape" && !closes) {
      event.preventDefault(); // a search keeps its text, and a dialog what is edited in it
      event.target.blur();
    }
    return;
  }
  if (!areOn() || document.querySelector("dialog[open]")) return;
  const pressed = begun ? `${begun} ${event.key}` : event.key;
  begun = "";
  const found = keys.get(pressed);
  if (found) {
    if (found.action(event) !== false) event.preventDefault();
  } else if ([...keys.keys()].some((key) => key.startsWith(`${pressed} `))) {
    begun = pressed;
  }
});

const NAMES = { Enter: "↵", Escape: "Esc" };

function element(name, className, text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function showKeys() {
  const dialog = document.getElementById("keys");
  const title = element("h2", "", "Keys");
  title.id = "keys-title";
  const list = element("dl", areOn() ? "" : "off");
  for (const [key, { label }] of keys) {
    const term = document.createElement("dt");
    for (const part of key.split(" ")) term.append(element("kbd", "", NAMES[part] ?? part), " ");
    list.append(term, element("dd", "", label));
  }
  const toggle = element("button", "btn", areOn() ? "Switch keys off" : "Switch keys on");
  toggle.type = "button";
  toggle.addEventListener("click", () => {
    memory.set("keys", areOn() ? "off" : "on");
    dialog.close();
    toast(areOn() ? "Keys are on." : "Keys are off. The button with the question mark switches them on.");
  });
  const close = element("button", "btn p", "Close");
  close.type = "button";
  close.autofocus = true;
  close.addEventListener("click", () => dialog.close());
  const buttons = element("p", "row");
  buttons.append(toggle, element("span", "grow"), close);
  dialog.replaceChildren(title, list, buttons);
  dialog.showModal();
}

function setUpMenu() {
  const button = document.getElementById("menu");
  const set = (open) => button.setAttribute("aria-expanded", String(open));
  button.addEventListener("click", () => set(button.getAttribute("aria-expanded") !== "true"));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#menu, #tools")) set(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || button.getAttribute("aria-expanded") !== "true") return;
    set(false);
    button.focus();
  });
  document.getElementById("show-keys").addEventListener("click", showKeys);
}

addKeys({
  "/": ["search", () => document.getElementById("search")?.select()],
  "g r": ["go to runs", () => location.assign("/runs")],
  "g i": ["go to the inbox", () => location.assign("/inbox")],
  "g o": ["go to the overview", () => location.assign("/overview")],
  c: ["copy the command of this view", () => document.querySelector("[data-copy].cli-of-view")?.click()],
  t: ["theme", () => document.getElementById("theme").click()],
  "?": ["this list", showKeys],
});

// What somebody types is not replaced by an answer to what was typed before.
if (globalThis.Idiomorph) Idiomorph.defaults.ignoreActiveValue = true;

setUpTheme();
setUpZone();
setUpMenu();
showTimes();
setInterval(() => document.hidden || showTimes(), 5_000);
document.addEventListener("htmx:afterSwap", (event) => showTimes(event.target));
