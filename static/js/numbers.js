// Number fields: arrow keys step by 1, with Shift by 10, with Alt by 0.1. Everything else is a text field.
const STEPS = { plain: 1, shift: 10, alt: 0.1 };

const decimals = (text) => (text.split(".")[1] ?? "").length;

function step(input, direction, size) {
  const text = input.value.trim().replace("\u2212", "-");
  const value = Number(text === "" ? 0 : text);
  if (!Number.isFinite(value)) return;
  const limit = Number(input.dataset.limit ?? 1e6);
  const places = Math.min(12, Math.max(/e/i.test(text) ? 0 : decimals(text), decimals(String(size))));
  const next = Math.min(limit, Math.max(-limit, value + direction * size));
  input.value = String(Number(next.toFixed(places)));
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

document.addEventListener("keydown", (event) => {
  const input = event.target.closest?.("input[data-number]");
  if (!input || event.ctrlKey || event.metaKey) return;
  const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!direction) return;
  event.preventDefault();
  step(input, direction, event.shiftKey ? STEPS.shift : event.altKey ? STEPS.alt : STEPS.plain);
});
