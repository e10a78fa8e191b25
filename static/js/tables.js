// In a table of numbers Tab stops once and arrow keys move between the numbers. Without this file each
// number is a link of its own in the tab order.
const LINKS = "table.matrix:not(.edit) td a";
const entry = new Map(); // table id → address of the number where Tab enters

const links = (table) => [...table.querySelectorAll("td a")];

export function arrangeTables(root = document) {
  const fresh = root.querySelectorAll(`${LINKS}:not([tabindex])`);
  for (const table of new Set(Array.from(fresh, (link) => link.closest("table")))) {
    const all = links(table);
    const chosen = all.find((link) => link.id && link.id === entry.get(table.id)) ?? all[0];
    for (const link of all) link.tabIndex = link === chosen ? 0 : -1;
  }
}

function neighbour(link, key) {
  const cell = link.closest("td");
  const row = cell.parentElement;
  const rows = [...row.parentElement.rows];
  const at = rows.indexOf(row);
  const inRow = (candidate) => [...candidate.cells].filter((c) => c.querySelector("a"));
  const here = inRow(row);
  const column = here.indexOf(cell);
  const pick = (cells, index) => cells[index]?.querySelector("a");
  switch (key) {
    case "ArrowLeft":
      return pick(here, column - 1);
    case "ArrowRight":
      return pick(here, column + 1);
    case "ArrowUp":
      return at > 0 ? pick(inRow(rows[at - 1]), column) : null;
    case "ArrowDown":
      return at + 1 < rows.length ? pick(inRow(rows[at + 1]), column) : null;
    case "Home":
      return pick(here, 0);
    case "End":
      return pick(here, here.length - 1);
    default:
      return undefined;
  }
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest?.(LINKS);
  if (!link) return;
  const next = neighbour(link, event.key);
  if (next === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  next?.focus();
});

document.addEventListener("focusin", (event) => {
  const link = event.target.closest?.(LINKS);
  if (!link || link.tabIndex === 0) return;
  const table = link.closest("table");
  entry.set(table.id, link.id);
  for (const other of links(table)) other.tabIndex = other === link ? 0 : -1;
});
