// An edit's answer holds the parts of a panel that it changes. Rows of numbers are written into the rows
// that stand there, and drawings put into the places of others: htmx's morph does this too, but looks for
// what has moved, and here nothing does. What nobody waits for, the addresses in a footer, comes last.

const numbers = (row) => [...row.querySelectorAll("td > a")];

function write(old, now) {
  const [olds, news] = [numbers(old), numbers(now)];
  const same = old.cells.length === now.cells.length && olds.length === news.length;
  if (!same || !olds.length || olds.some((link, i) => link.id !== news[i].id)) return false;
  if (old.className !== now.className) old.className = now.className;
  olds.forEach((link, i) => {
    const next = news[i];
    const [cell, wanted] = [link.parentElement, next.parentElement.className];
    if (cell.className !== wanted) cell.className = wanted;
    if (link.innerHTML !== next.innerHTML) link.replaceChildren(...next.childNodes);
  });
  return true;
}

// A frame later than the one that shows the new numbers, so as not to be in its way.
export function afterPaint(work) {
  requestAnimationFrame(() => setTimeout(work, 16));
}

function take({ type, target, fragment }) {
  const part = fragment.firstElementChild;
  if (type !== "partial" || !target || !part) return false;
  if (part.matches("tr")) return write(target, part);
  if (part.matches("svg")) target.replaceWith(part);
  else if (part.matches("footer")) afterPaint(() => window.htmx.swap({ text: part.outerHTML, target, swap: "outerMorph" }));
  else return false;
  return true;
}

// `tasks` are htmx's, one for each part; those done here are taken from it.
document.addEventListener("htmx:before:swap", ({ detail: { tasks } }) => {
  const left = tasks.filter((task) => !take(task));
  tasks.splice(0, tasks.length, ...left);
});
