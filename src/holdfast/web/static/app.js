// What every page has: theme, time zone, keys, copying, toasts. No page needs it to be read.

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

export function toast(text) {
  const shown = document.createElement("p");
  shown.className = "toast";
  shown.textContent = text;
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), 4000);
}

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

export function relative(when, now = Date.now()) {
  const seconds = Math.round((now - when) / 1000);
  const past = Math.abs(seconds);
  if (past >= 86400) return absolute(when);
  let text = "now";
  if (past >= 3600) text = `${Math.floor(past / 3600)} h ${Math.floor((past % 3600) / 60)} m`;
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
    const offset = -new Date().getTimezoneOffset() / 60;
    button.textContent = zone() ? "UTC" : `UTC${offset < 0 ? "−" : "+"}${Math.abs(offset)}`;
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

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast(`Copied: ${text}`);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button.dataset.copy);
});

// --- keys: pages add theirs with addKeys; the dialog lists all of them

const keys = new Map();
let begun = "";

export function addKeys(added) {
  for (const [key, [label, action]] of Object.entries(added)) keys.set(key, { label, action });
}

const isTyping = (target) =>
  target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || memory.get("keys") === "off") return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const pressed = begun ? `${begun} ${event.key}` : event.key;
  begun = "";
  const found = keys.get(pressed);
  if (found) {
    if (found.action(event) !== false) event.preventDefault();
  } else if ([...keys.keys()].some((key) => key.startsWith(`${pressed} `))) {
    begun = pressed;
  }
});

function showKeys() {
  const dialog = document.getElementById("keys");
  dialog.replaceChildren();
  const title = document.createElement("h2");
  title.id = "keys-title";
  title.textContent = "Keys";
  const list = document.createElement("dl");
  for (const [key, { label }] of keys) {
    const term = document.createElement("dt");
    for (const part of key.split(" ")) {
      const shown = document.createElement("kbd");
      shown.textContent = part;
      term.append(shown, " ");
    }
    const text = document.createElement("dd");
    text.textContent = label;
    list.append(term, text);
  }
  const toggle = document.createElement("button");
  toggle.className = "btn";
  toggle.type = "button";
  toggle.textContent = "Switch keys off";
  toggle.addEventListener("click", () => {
    memory.set("keys", "off");
    dialog.close();
    toast("Keys are off. The theme button's right click switches them on again.");
  });
  dialog.append(title, list, toggle);
  dialog.showModal();
}

addKeys({
  "/": ["search", () => document.getElementById("search")?.focus()],
  "g r": ["go to runs", () => location.assign("/runs")],
  "g i": ["go to the inbox", () => location.assign("/inbox")],
  "g o": ["go to the overview", () => location.assign("/overview")],
  c: ["copy the command of this view", () => document.querySelector("[data-copy].cli-of-view")?.click()],
  t: ["theme", () => document.getElementById("theme").click()],
  "?": ["this list", showKeys],
});

setUpTheme();
setUpZone();
showTimes();
setInterval(showTimes, 10_000);
document.addEventListener("htmx:afterSwap", (event) => showTimes(event.target));
