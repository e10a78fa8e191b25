// Copy buttons: `data-copy` names the element whose text is copied, `data-copy-link` the link.
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

// The link to the present state. A step or a prediction changes the address and leaves the link alone,
// so it is renewed when somebody comes near.
function renew(link) {
  if (link) link.href = location.search || "?";
  return link;
}

for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const link = event.target.closest?.("a[id]");
    if (link && document.querySelector(`[data-copy-link="${link.id}"]`)) renew(link);
  });
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-link]");
  if (!button) return;
  event.preventDefault();
  const source = document.getElementById(button.dataset.copy ?? button.dataset.copyLink);
  const text = button.dataset.copyLink ? renew(source).href : (source.value ?? source.textContent).trim();
  const done = await copy(text);
  const label = (button.dataset.label ??= button.textContent);
  button.textContent = done ? "Copied" : "Select it and copy";
  setTimeout(() => {
    button.textContent = label;
  }, 1600);
});

// Dialogs open by `command`; a browser that does not know it yet gets the same from here.
if (!("command" in HTMLButtonElement.prototype)) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[commandfor]");
    const dialog = button && document.getElementById(button.getAttribute("commandfor"));
    if (!dialog) return;
    if (button.getAttribute("command") === "close") dialog.close();
    else dialog.showModal();
  });
}

// A menu that is open closes by Escape, or by a click elsewhere.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("details.menu[open]");
  if (!menu) return;
  event.preventDefault();
  menu.open = false;
  menu.querySelector("summary").focus();
});
