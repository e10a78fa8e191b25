// Panels that follow the address: those in sight at once, the others when they come into sight.

// The default state has no query, and no question mark either.
document.addEventListener("htmx:before:history:update", ({ detail: { history: change } }) => {
  if (change.path === "?") change.path = location.pathname;
});

// `panels()` are the panels there are now, `ask(panel)` brings one up to date, and `margin` says how far
// outside the window still counts as in sight.
export function followInSight(panels, ask, margin) {
  const inSight = new Set();

  function follow(panel) {
    if (!("outdated" in panel.dataset)) return;
    delete panel.dataset.outdated;
    ask(panel);
  }

  const sight = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) {
          inSight.add(target.id);
          follow(target);
        } else inSight.delete(target.id);
      }
    },
    { rootMargin: margin },
  );
  for (const panel of panels()) sight.observe(panel);

  return {
    outdateAllBut(current) {
      for (const panel of panels()) if (panel !== current) panel.dataset.outdated = "";
      for (const panel of panels()) if (inSight.has(panel.id)) follow(panel);
    },
  };
}
