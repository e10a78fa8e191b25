// The translation chapter: the address is the state. A link to another state and a changed form ask for
// their own panel; the other panels then follow the address, those in sight first. Without this file
// every link and every button loads the whole page in the same state.
import { followInSight } from "./follow.js";
import "./numbers.js";

const htmx = window.htmx;
// What belongs to the reader and not to the answer.
htmx.config.morphIgnore.push("open");

const plain = (event) => event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
const panels = () => document.querySelectorAll("[data-source]");
const panelOf = (element) => element?.closest?.("[data-source]");

// --- Asking for a panel ---------------------------------------------------------------------------

function ask(panel, search) {
  delete panel.dataset.outdated;
  return htmx.ajax("GET", panel.dataset.source + search, { source: panel, target: panel, swap: "outerMorph" });
}

const query = (form) => "?" + new URLSearchParams(new FormData(form));

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-go]");
  if (!link || !plain(event)) return;
  event.preventDefault();
  const target = document.getElementById(link.hash.slice(1));
  if (!target) {
    // An embed has one panel: the lesson has the others.
    const lesson = document.querySelector(".embed-footer a");
    window.open(lesson.pathname + link.search + link.hash, "_blank", "noopener");
    return;
  }
  ask(target, link.search);
  if (target !== panelOf(link)) target.scrollIntoView({ block: "start" });
});

// A changed control asks for its panel; what is typed waits for a pause.
let typing = 0;

for (const kind of ["change", "submit", "input"]) {
  document.addEventListener(kind, (event) => {
    const form = (event.target.form ?? event.target).closest?.("form[data-ask]");
    if (!form) return;
    clearTimeout(typing);
    if (kind === "submit") event.preventDefault();
    if (kind === "input" && !event.target.matches("input[name=to]")) return;
    typing = setTimeout(() => ask(panelOf(form), query(form)), kind === "input" ? 450 : 0);
  });
}

// --- The text: streamed first, its panel when the stream is over ----------------------------------

document.addEventListener("end", (event) => {
  const form = event.target.closest?.("form.ask-text");
  if (form) ask(panelOf(form), query(form));
});

// Enter translates; Shift and Enter makes a new line.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  if (!event.target.matches?.("textarea[data-submit]")) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});

// --- Trouble on the line ---------------------------------------------------------------------------

function tell(panel, words) {
  const trouble = panel?.querySelector(".trouble");
  if (!trouble) return;
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.textContent = words;
  trouble.replaceChildren(notice);
}

document.addEventListener("htmx:error", (event) => {
  if (event.detail?.error?.name === "AbortError") return;
  const panel = panelOf(event.detail?.ctx?.sourceElement ?? event.target);
  tell(panel, "The server did not answer. Change something or try again.");
});

document.addEventListener("htmx:sse:error", (event) => {
  const panel = panelOf(event.target);
  panel?.querySelector(".caret")?.remove();
  tell(panel, "The connection broke before the translation was finished. Press Translate to try again.");
});

// --- After an answer ------------------------------------------------------------------------------

function syncFields(panel) {
  // A morph leaves a field alone once somebody has used it; the answer knows better, except where
  // somebody is typing.
  for (const field of panel.querySelectorAll("input, textarea")) {
    if (field === document.activeElement && !/radio|checkbox/.test(field.type)) continue;
    if (/radio|checkbox/.test(field.type)) field.checked = field.defaultChecked;
    else if (field.value !== field.defaultValue) field.value = field.defaultValue;
  }
  for (const select of panel.querySelectorAll("select")) {
    if (select === document.activeElement) continue;
    for (const option of select.options) if (option.defaultSelected) select.value = option.value;
  }
}

document.addEventListener("htmx:after:swap", (event) => {
  const panel = panelOf(event.detail?.ctx?.target);
  if (!panel || event.detail.ctx.target.matches(".live")) return;
  syncFields(panel);
  expect();
});

let current = location.search;
const following = followInSight(panels, follow, "400px");

function follow(panel) {
  // Whoever is writing keeps what they wrote: the end of a stream asks anyway, and what was refused
  // is theirs to put right.
  if (panel.querySelector("form.htmx-request, [aria-invalid]")) return;
  ask(panel, location.search);
}

document.addEventListener("htmx:after:history:update", (event) => {
  if (location.search === current) return;
  current = location.search;
  const from = panelOf(event.detail?.sourceElement);
  following.outdateAllBut(from);
});

// --- While a model is being loaded, ask again now and then ----------------------------------------

let expecting = 0;

function expect() {
  clearTimeout(expecting);
  const waiting = panelOf(document.querySelector("[data-waiting]"));
  if (!waiting) return;
  expecting = setTimeout(async () => {
    const answer = await fetch(waiting.dataset.source + location.search).catch(() => null);
    if (answer?.ok && !(await answer.text()).includes("data-waiting")) following.outdateAllBut(null);
    else expect();
  }, 1500);
}

expect();
