// The list of open questions follows the store. The form that somebody fills in is left alone.

import { showTimes, toast } from "./app.js";
import { listen, refresher } from "./live.js";

const asked = (page) => page.querySelector("[data-asked]")?.dataset.asked;
const LISTING_EVERY = 2000; // milliseconds between two fetches of the whole list

function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const [list, made] = [document, fresh].map((page) => page.querySelector(".questions"));
  for (const id of ["inbox-head", "inbox-tabs"]) {
    const [old, next] = [document.getElementById(id), fresh.getElementById(id)];
    if (old && next && !old.isEqualNode(next)) Idiomorph.morph(old, next, { morphStyle: "outerHTML" });
  }
  if (!list) {
    if (made) location.reload(); // the first question
    return;
  }
  const key = asked(document);
  const links = [...(made?.querySelectorAll("[data-key]") ?? [])];
  // It may be shown, and not be among those that are listed.
  const isOpen = links.some((each) => each.dataset.key === key) || asked(fresh) === key;
  if (made && isOpen) {
    for (const link of made.querySelectorAll("[data-key]")) {
      if (link.dataset.key === key) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (!list.isEqualNode(made)) Idiomorph.morph(list, made, { morphStyle: "outerHTML" });
  } else if (key && !document.querySelector(".gone")) {
    const note = document.createElement("p");
    note.className = "ask-t gone";
    note.setAttribute("role", "status");
    const why = fresh.querySelector(".closed")?.lastChild?.textContent.trim();
    note.textContent = why || "This question is not open any more: somebody answered it, or its run has ended.";
    document.querySelector(".panel .ends")?.before(note);
    for (const button of document.querySelectorAll(".panel .ends button")) button.disabled = true;
    toast("The question that is shown is not open any more.");
  }
  showTimes();
}

if (document.getElementById("inbox-open")) {
  const refresh = refresher(() => location.href, show, LISTING_EVERY);
  listen({ runs: (ids, any) => (any || ids.length) && refresh() });
}
