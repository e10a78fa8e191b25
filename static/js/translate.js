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

let latest = null; // the reader's latest question: its answer alone changes the address

function get(panel, search, more) {
  delete panel.dataset.outdated;
  const options = { source: panel, target: panel, swap: "outerMorph" };
  return htmx.ajax("GET", panel.dataset.source + search, { ...options, ...more });
}

function ask(panel, search) {
  latest = { search };
  return get(panel, search, { question: latest });
}

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  // Meanwhile the reader went on, and this panel has been told to follow.
  if ("follows" in ctx && ctx.follows !== location.search) event.preventDefault();
  else if (ctx.hx && ctx.question !== latest) ctx.hx.replaceurl = null;
});

const query = (form) => "?" + new URLSearchParams(new FormData(form));

// Links and forms hold the whole state, as it was when their panel was written. A panel that has not
// followed the address yet is asked for what they change, on top of the address.
const shown = new WeakMap(); // the state in a panel's links
const start = location.search;

function searchOf(link) {
  const before = new URLSearchParams(shown.get(panelOf(link)) ?? start);
  const after = new URLSearchParams(link.search);
  const search = new URLSearchParams(location.search);
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    if (before.get(name) === after.get(name)) continue;
    if (after.has(name)) search.set(name, after.get(name));
    else search.delete(name);
  }
  return search.size ? "?" + search : "";
}

function queryOf(form) {
  const controls = [...form.elements].filter((element) => element.name && element.type !== "hidden");
  const search = new URLSearchParams(location.search);
  search.set("valid", location.search.slice(1));
  for (const { name } of controls) search.delete(name);
  for (const [name, value] of new FormData(form)) {
    if (controls.some((control) => control.name === name)) search.append(name, value);
  }
  return "?" + search;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-go]");
  if (!link || !plain(event)) return;
  event.preventDefault();
  const target = document.getElementById(link.hash.slice(1));
  if (!target) {
    // An embed has one panel: the lesson has the others.
    const lesson = document.querySelector(".embed-footer a");
    const search = link.search.replace(/&?\b(theme|controls)=\w+/g, "");
    window.open(lesson.pathname + search + link.hash, "_blank", "noopener");
    return;
  }
  ask(target, searchOf(link));
  if (target !== panelOf(link)) target.scrollIntoView({ block: "start" });
});

// A changed control asks for its panel; what is typed waits for a pause.
let typing = 0;

for (const kind of ["change", "submit", "input"]) {
  document.addEventListener(kind, (event) => {
    const form = (event.target.form ?? event.target).closest?.("form[data-ask]");
    if (!form) return;
    if (kind === "submit") event.preventDefault();
    const typed = event.target.matches("input[name=to]");
    if (kind === "input" && !typed) return;
    // What was typed has been asked for by the time that its field is left, unless that was quick.
    if (kind === "change" && typed && !typing) return;
    clearTimeout(typing);
    typing = setTimeout(
      () => {
        typing = 0;
        ask(panelOf(form), queryOf(form));
      },
      kind === "input" ? 450 : 0,
    );
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
  const { question } = event.detail.ctx;
  shown.set(panel, question && question !== latest ? question.search : location.search);
  syncFields(panel);
  expect();
});

let current = location.search;
const following = followInSight(panels, follow, "400px");

function follow(panel) {
  // Whoever is writing keeps what they wrote: the end of a stream asks anyway, what was refused is
  // theirs to put right, and a text that the address does not have yet goes before the address.
  if (panel.querySelector("form.htmx-request, [aria-invalid]")) return;
  const text = panel.querySelector("textarea[data-submit]");
  if (text && text.value !== text.defaultValue) ask(panel, query(text.form));
  else get(panel, location.search, { follows: location.search });
}

document.addEventListener("htmx:after:history:update", (event) => {
  if (location.search === current) return;
  current = location.search;
  const from = panelOf(event.detail?.sourceElement);
  following.outdateAllBut(from);
});

// --- While a model is being loaded, ask again now and then ----------------------------------------

const waits = (panel) => panel.matches("[data-waiting]") || panel.querySelector("[data-waiting]");

let expecting = 0;
let pause = 1500;

function expect() {
  clearTimeout(expecting);
  const waiting = panelOf(document.querySelector("[data-waiting]"));
  if (!waiting) return;
  expecting = setTimeout(async () => {
    const answer = await fetch(waiting.dataset.source + location.search).catch(() => null);
    if (answer?.ok && !(await answer.text()).includes("data-waiting")) {
      pause = 1500;
      // Those out of sight too: they would go on saying that they wait.
      for (const panel of panels()) if (waits(panel)) follow(panel);
    } else {
      pause = answer ? 1500 : Math.min(2 * pause, 60_000);
      expect();
    }
  }, pause);
}

expect();
