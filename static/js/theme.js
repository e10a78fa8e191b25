// Before the first paint: mark that scripts run, and apply the theme that the reader chose.
// An embed's own ?theme= stands in data-theme already and wins. "auto" follows the system.
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const fixed = root.dataset.theme === "light" || root.dataset.theme === "dark";

  const remembered = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage may be forbidden, for example in a framed document
    }
  };
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  if (!fixed) apply(remembered());

  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-theme-toggle]")) return;
    const theme = dark() ? "light" : "dark";
    apply(theme);
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // It still holds until the page is left.
    }
    document.dispatchEvent(new CustomEvent("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("themechange")),
  );
})();
