// Runs before the first paint, so that a page never flashes in the wrong theme.
try {
  const theme = localStorage.getItem("holdfast.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is switched off: the system's theme is used.
}
document.documentElement.classList.add("js");
