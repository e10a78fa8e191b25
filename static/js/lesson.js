// A chapter's page: one form holds the state, and panels follow it. HTMX asks for them; this file says
// when, keeps the fields true to the answer, and looks after the focus. Without it every link and the
// submit button load the whole page in the same state.
import "./numbers.js";
import { afterPaint } from "./cells.js";
import { followInSight } from "./follow.js";
import { arrangeTables } from "./tables.js";

// What belongs to the reader and not to the answer: what is unfolded, and where Tab enters a table.
window.htmx?.config.morphIgnore.push("open", "tabindex");

const stateForm = () => document.querySelector("form[data-state]");
const followers = () => document.querySelectorAll("[data-follows]");
const byId = (id) => document.getElementById(id);

// --- Links that change one field of the state: open a number, go to a step -------------------------

const DEFAULTS = { step: "1" }; // what an address leaves out

let returnTo = null; // id of the link to focus when the arithmetic is closed
let opening = false;

function setField(name, value) {
  for (const field of document.querySelectorAll(`input[type="hidden"][name="${name}"]`)) field.value = value;
}

// Of a panel without the bench beside it, in an embed.
function ask(panel, search) {
  const source = panel.getAttribute("hx-get");
  window.htmx.ajax("GET", source + search, { source: panel, target: panel, swap: "outerMorph" });
}

function refresh(panel) {
  const form = panel.querySelector("form[data-state]");
  window.htmx.trigger(form ?? panel, "refresh");
}

document.addEventListener("click", (event) => {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]:not([data-plain], [data-try], [hx-get])");
  const name = link?.closest("[data-field]")?.dataset.field;
  const panel = link?.closest("[data-panel]");
  if (!name || !panel || !window.htmx) return;
  const { pathname, search, searchParams } = new URL(link.href);
  if (pathname !== location.pathname) return;
  event.preventDefault();
  const value = searchParams.get(name) ?? DEFAULTS[name] ?? "";
  if (name === "show") {
    opening = value !== "";
    if (opening) returnTo = link.closest("table.matrix") ? link.id : value;
  }
  if (stateForm()) {
    setField(name, value);
    refresh(panel);
  } else ask(panel, search);
});

// An answer leaves out the numbers that it does not change, so the state in their links grows old. The
// address has the present one.
function completeLink(event) {
  const link = event.target.closest?.('[data-panel]:has(form[data-state]) a[href^="?"][href*="show="]');
  if (!link) return;
  const rest = location.search.slice(1).split("&").filter((pair) => pair && !pair.startsWith("show="));
  link.href = `?${[...rest, `show=${new URL(link.href).searchParams.get("show")}`].join("&")}`;
}
document.addEventListener("pointerover", completeLink);
document.addEventListener("focusin", completeLink);

// "Try it" in the prose: the bench takes the state of the link, and comes into sight.
document.addEventListener("click", (event) => {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[data-try]");
  const form = stateForm();
  if (!link || !form || !window.htmx) return;
  event.preventDefault();
  const bench = form.closest("[data-panel]");
  window.htmx.trigger(form, "htmx:abort");
  const shown = encodeURIComponent(form.elements.shown.value);
  const address = `${form.getAttribute("hx-get")}${link.search}${link.search ? "&" : "?"}shown=${shown}`;
  window.htmx.ajax("GET", address, { source: bench, target: bench, swap: "outerMorph" });
  bench.scrollIntoView({ block: "start" });
});

// Predictions travel with the state, until its numbers change: then they would answer other questions.
document.addEventListener("submit", (event) => {
  const quiz = event.target;
  const panel = quiz.closest("[data-panel]");
  if (!quiz.matches("[data-quiz]") || !window.htmx) return;
  event.preventDefault();
  if (!stateForm()) {
    ask(panel, `?${new URLSearchParams(new FormData(quiz, event.submitter))}`);
    return;
  }
  for (const field of quiz.querySelectorAll('input[name^="guess"]')) setField(field.name, field.value);
  setField("reveal", event.submitter?.name === "reveal" ? event.submitter.value : "0");
  refresh(panel);
});

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-state]");
  if (!form) return;
  for (const field of form.querySelectorAll('input[name^="guess"]')) field.value = "";
  setField("reveal", "0");
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented) return;
  const close = document.querySelector("[data-arithmetic] .close");
  if (close && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    if (event.target.matches?.("input")) returnTo = null; // whoever is typing stays where they are
    close.click();
  }
});

// ← and → turn the steps, wherever the focus is inside them.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const steps = rel && event.target.closest?.("[data-steps]");
  if (!steps || event.target.closest("input, textarea, select, table, .formula")) return;
  const link = steps.querySelector(`a[rel="${rel}"]`);
  if (link) {
    event.preventDefault();
    link.click();
  }
});

// --- The latest edit wins: a keystroke gives up the request that it makes obsolete -----------------

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form?.matches("[data-state]") && form.contains(event.target)) form.dispatchEvent(new Event("htmx:abort"));
});

// --- After an answer ------------------------------------------------------------------------------

function syncFields(form) {
  // A morph leaves a field alone once somebody has used it; the answer knows better, except where
  // somebody is typing.
  for (const field of form.elements) {
    if (field === document.activeElement && field.type !== "radio") continue;
    if (field.type === "radio" || field.type === "checkbox") field.checked = field.defaultChecked;
    else if (field.defaultValue !== undefined && field.value !== field.defaultValue) field.value = field.defaultValue;
  }
}

function manageFocus() {
  const arithmetic = document.querySelector("[data-arithmetic]");
  if (arithmetic && opening) {
    arithmetic.querySelector("h4")?.focus({ preventScroll: true });
    arithmetic.scrollIntoView({ block: "nearest" });
  } else if (!arithmetic && returnTo) {
    byId(returnTo)?.focus({ preventScroll: true });
    returnTo = null;
  }
  opening = false;
}

document.addEventListener("htmx:after:swap", (event) => {
  const status = event.detail?.ctx?.response?.status ?? 200;
  if (status < 400 || status === 422) trouble(event, false);
  const form = stateForm();
  if (form) syncFields(form);
  arrangeTables();
  manageFocus();
});

// What the numbers depend on: an open number, a step or a prediction changes none of them.
function numbersOf(search) {
  const query = new URLSearchParams(search);
  for (const name of [...query.keys()]) if (/^(show|step|reveal|guess\d+)$/.test(name)) query.delete(name);
  return query.toString();
}

let current = numbersOf(location.search);
let guessed = /guess|reveal/.test(location.search);
const below = followInSight(followers, (panel) => window.htmx.trigger(panel, "refresh"), "300px");

function followNumbers(panel) {
  const numbers = numbersOf(location.search);
  const dropped = guessed && !/guess|reveal/.test(location.search);
  guessed = /guess|reveal/.test(location.search);
  if (numbers === current && !dropped) return;
  current = numbers;
  below.outdateAllBut(panel);
}

// The address, and the panels that follow it, change once the new numbers are painted: a browser takes
// a while over it.
document.addEventListener("htmx:before:history:update", (event) => {
  const { history: change, sourceElement } = event.detail;
  if (change.type !== "replace") return;
  event.preventDefault();
  afterPaint(() => {
    const panel = sourceElement?.closest?.("[data-panel]");
    const form = stateForm();
    if (form && panel && !panel.contains(form) && numbersOf(new URL(change.path, location).search) !== current) {
      // It was asked before the last edit and came after it.
      window.htmx.trigger(panel, "refresh");
      return;
    }
    history.replaceState({ htmx: true }, "", change.path);
    followNumbers(panel);
  });
});

// --- Trouble on the line --------------------------------------------------------------------------

function trouble(event, is) {
  if (is) opening = false;
  const source = event.detail?.ctx?.sourceElement ?? event.target;
  const line = source?.closest?.("[data-panel]")?.querySelector("[data-trouble]");
  if (line) line.hidden = !is;
}

document.addEventListener("htmx:response:error", (event) => {
  if (event.detail?.ctx?.response?.status !== 422) trouble(event, true);
});
document.addEventListener("htmx:error", (event) => trouble(event, true));

// --- Start ----------------------------------------------------------------------------------------

arrangeTables();
