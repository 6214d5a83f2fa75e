// Tabs that do not fit are scrolled: arrows say where there is more, and the current one is seen.

const EDGE = 2; // pixels

function tell(tabs) {
  const end = tabs.scrollWidth - tabs.clientWidth;
  const more = { before: tabs.scrollLeft > EDGE, after: tabs.scrollLeft < end - EDGE };
  for (const [side, is] of Object.entries(more)) {
    if (tabs.hasAttribute(`data-${side}`) !== is) tabs.toggleAttribute(`data-${side}`, is);
  }
}

function showCurrent(tabs) {
  const current = tabs.querySelector("[aria-current]");
  if (!current) return;
  const [inner, outer] = [current, tabs].map((one) => one.getBoundingClientRect());
  tabs.scrollLeft += (inner.left + inner.right - outer.left - outer.right) / 2;
}

for (const tabs of document.querySelectorAll("nav.tabs")) {
  showCurrent(tabs);
  tell(tabs);
  tabs.addEventListener("scroll", () => tell(tabs), { passive: true });
  new ResizeObserver(() => {
    showCurrent(tabs);
    tell(tabs);
  }).observe(tabs);
  // What follows the store replaces attributes and counts.
  new MutationObserver(() => tell(tabs)).observe(tabs, {
    attributes: true,
    childList: true,
    characterData: true,
    subtree: true,
  });
}
