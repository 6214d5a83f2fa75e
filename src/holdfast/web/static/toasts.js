// Short messages. They are bars above the page, which moves down for them: no control is covered.
// While a dialog is open they are in it: nothing else can be seen or reached then.

const SHOWN = 6000; // milliseconds, unless somebody points at it or is in it
const MOST = 3;
let settled; // the timer after which browsers keep what is seen in its place again

function region() {
  const dialog = document.querySelector("dialog[open]");
  if (!dialog) return document.getElementById("toasts");
  let found = dialog.querySelector(":scope > .toasts");
  if (!found) {
    found = document.createElement("div");
    found.className = "toasts";
    found.setAttribute("role", "status");
    found.setAttribute("aria-live", "polite");
    dialog.prepend(found);
  }
  return found;
}

export function toast(text) {
  const place = region();
  clearTimeout(settled);
  document.documentElement.classList.add("moves");
  const shown = document.createElement("p");
  shown.className = "toast";
  const said = document.createElement("span");
  said.textContent = text;
  const dismiss = document.createElement("button");
  dismiss.type = "button";
  dismiss.className = "btn g";
  dismiss.setAttribute("aria-label", "Dismiss");
  dismiss.textContent = "✕";
  dismiss.addEventListener("click", () => remove(shown));
  shown.append(said, dismiss);
  let left;
  for (const begins of ["mouseenter", "focusin"]) shown.addEventListener(begins, () => clearTimeout(left));
  for (const ends of ["mouseleave", "focusout"]) {
    shown.addEventListener(ends, () => {
      clearTimeout(left);
      left = setTimeout(() => remove(shown), SHOWN / 2);
    });
  }
  // Then browsers know that the page may move, and screen readers a region that was just made.
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      for (const before of [...place.children]) {
        if (before.firstChild.textContent === text) remove(before);
      }
      while (place.children.length >= MOST) remove(place.firstChild);
      place.append(shown);
      left = setTimeout(() => remove(shown), SHOWN);
    }),
  );
}

function remove(shown) {
  shown.remove();
  clearTimeout(settled);
  settled = setTimeout(() => {
    if (!document.querySelector("#toasts > *")) document.documentElement.classList.remove("moves");
  }, 200);
}

// Escape takes away what is shown, and does what it does besides.
document.addEventListener(
  "keydown",
  (event) => {
    if (event.key !== "Escape") return;
    for (const shown of document.querySelectorAll(".toast")) remove(shown);
  },
  { capture: true },
);

// A button that copies says that it did, where it is; screen readers are told what.
function sayCopied(button, text) {
  const label = button.textContent;
  button.style.minWidth = `${button.offsetWidth}px`;
  button.textContent = "Copied";
  document.getElementById("said").textContent = `Copied: ${text}`;
  setTimeout(() => {
    button.textContent = label;
    button.style.minWidth = "";
    document.getElementById("said").textContent = "";
  }, 2000);
}

export function copied(button, text) {
  const label = button?.textContent.trim() ?? "";
  if (label === "Copied") return;
  if (/^Copy(?!:)/.test(label) && button.offsetParent) sayCopied(button, text);
  else toast(`Copied: ${text}`);
}

// What sticks to the top of the window makes room for them.
new ResizeObserver(([entry]) => {
  const height = `${Math.ceil(entry.contentRect.height)}px`;
  document.documentElement.style.setProperty("--toasts", height);
}).observe(document.getElementById("toasts"));
