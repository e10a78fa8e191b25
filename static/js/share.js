// Copy buttons: `data-copy` names the element whose text is copied, or is the text with `data-text`.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  event.preventDefault();
  const source = document.getElementById(button.dataset.copy);
  const text = source ? (source.value ?? source.textContent).trim() : new URL(button.dataset.copy, location.href).href;
  const done = await copy(text);
  const label = (button.dataset.label ??= button.textContent);
  button.textContent = done ? "Copied" : "Select it and copy";
  setTimeout(() => {
    button.textContent = label;
  }, 1600);
});
