// The review page: questions first, then proposed changes one by one or in a grid. Keys before mouse.

import * as api from "/api.js";
import { cannotTell, decide, draw, drawDone, goTo, refill, undo, update } from "/changes.js";
import { chooseAmong, wireClasses } from "/classes.js";
import { askName, linkExport, openExport, recall, setName } from "/dialogs.js";
import { decideSelected, moveFocus, select, selectAll, toggleGrid } from "/grid.js";
import * as questions from "/questions.js";
import { onRestart, restart, state, trouble } from "/state.js";
import { $, element, number } from "/view.js";

const POLL_MS = 4000;

async function load() {
  state.again = false;
  state.stale = true; // until it has succeeded: the poll tries again
  state.queue = [];
  state.shown = null;
  state.round += 1;
  await introduced;
  const asking = state.mode === "questions";
  showMode();
  await (asking ? Promise.all([questions.refillQuestions(), told()]) : refill());
  state.stale = false;
  if (state.again) return;
  if (asking) questions.drawQuestion();
  else draw();
}

const told = async () => questions.showStatus(await api.outlook());

// --- questions or changes -----------------------------------------------------------------

function showMode() {
  const asking = state.mode === "questions";
  for (const part of document.querySelectorAll("[data-mode]")) {
    part.hidden = part.dataset.mode !== state.mode;
  }
  $("mode-questions").setAttribute("aria-pressed", String(asking));
  $("mode-changes").setAttribute("aria-pressed", String(!asking));
  $("grid").hidden = $("single").hidden = $("done").hidden = true;
}

export function setMode(mode) {
  state.mode = mode;
  history.replaceState(null, "", `#${mode}`);
  if (mode === "questions" && state.grid) toggleGrid();
  else restart();
}

function doubtfulRest() {
  state.order = $("order").value = "rest";
  setMode("changes");
  window.scrollTo(0, 0);
}

// --- changes: another class, order, filter ------------------------------------------------

function openOther() {
  if (state.busy || state.grid || !state.queue.length) return;
  const { given, proposed } = state.queue[0];
  const remark = (label) => (label === given ? "given" : label === proposed ? "suggested" : "");
  chooseAmong(state.names, remark, (label) => {
    // The classes on the table are an acceptance and a rejection: store them as what they are.
    if (label === proposed) decide("accept");
    else if (label === given) decide("reject");
    else decide("other", label);
  });
}

function setOrder(order) {
  state.order = order;
  $("order").value = order;
  const audit = order === "audit";
  const whole = audit || order === "suspicious"; // the pairs are those of the changes
  if (whole) {
    state.pair = null; // a filtered sample would say nothing about all changes
    $("pair").value = "";
  }
  $("pair").disabled = whole;
  $("pair").title = audit ? "A filtered sample would say nothing about all changes" : "";
  restart();
}

function startAudit() {
  setOrder("audit");
  $("audit-start").blur(); // or Space would start it again
  window.scrollTo(0, 0); // on a phone the panel is far below the change
}

function setPair(value) {
  state.pair = value ? value.split(",").map(Number) : null;
  restart();
}

// --- wiring -------------------------------------------------------------------------------

const CHANGE_KEYS = {
  a: () => (state.grid ? decideSelected("accept") : decide("accept")),
  r: () => (state.grid ? decideSelected("reject") : decide("reject")),
  o: openOther,
  s: () => decide("skip"),
  x: () => state.compares && cannotTell(),
  u: undo,
  g: toggleGrid,
  n: () => state.grid || $("change-note").focus(),
};

function actOf(key) {
  if (key === "?") return () => $("help-dialog").showModal();
  if (state.mode === "questions") return questions.questionKey(key.length === 1 ? key.toLowerCase() : key);
  return CHANGE_KEYS[key.toLowerCase()];
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (document.querySelector("dialog[open]")) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "checkbox") return;
  if (event.key === "Enter" && event.target.tagName === "BUTTON") return; // it presses the button
  if (state.grid && event.key.startsWith("Arrow")) {
    event.preventDefault();
    moveFocus(event.key);
    return;
  }
  const act = actOf(event.key);
  if (act) {
    event.preventDefault();
    act();
  }
}

function wire() {
  const clicks = {
    accept: CHANGE_KEYS.a,
    reject: CHANGE_KEYS.r,
    other: openOther,
    skip: CHANGE_KEYS.s,
    unsure: CHANGE_KEYS.x,
    undo,
    "grid-accept": CHANGE_KEYS.a,
    "grid-reject": CHANGE_KEYS.r,
    "grid-undo": undo,
    "grid-all": selectAll,
    "grid-toggle": toggleGrid,
    "done-undo": () => (state.mode === "questions" ? questions.undoAnswer() : undo()),
    "done-export": openExport,
    "export-open": openExport,
    "export-close": () => $("export-dialog").close(),
    "help-open": () => $("help-dialog").showModal(),
    "help-close": () => $("help-dialog").close(),
    "applied-close": () => $("applied-dialog").close(),
    "audit-start": startAudit,
    "name-ok": setName,
    who: askName,
    "mode-questions": () => setMode("questions"),
    "mode-changes": () => setMode("changes"),
    "class-search": () => questions.searchClass(),
    "cannot-tell": () => questions.answer(null),
    unanswer: questions.undoAnswer,
    apply: questions.apply,
    applied: questions.linkApplied,
    rest: doubtfulRest,
  };
  for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
  document.addEventListener("keydown", onKey);
  $("hint-switch").addEventListener("change", questions.showHint);
  for (const id of ["note-text", "change-note"]) {
    $(id).addEventListener("keydown", (event) => event.key === "Enter" && $(id).blur());
  }
  $("find").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !$("find").value.trim() || state.grid) return;
    $("find").blur();
    goTo($("find").value.trim());
  });
  $("order").addEventListener("change", (event) => setOrder(event.target.value));
  $("pair").addEventListener("change", (event) => setPair(event.target.value));
  for (const id of ["order", "pair"]) letGoAfterPointer($(id));
  $("cards").addEventListener("click", (event) => {
    const button = event.target.closest("button.card");
    if (button) select(button, button.getAttribute("aria-pressed") !== "true");
  });
  wireClasses();
  $("name").addEventListener("keydown", (event) => event.key === "Enter" && setName());
  $("name-dialog").addEventListener("cancel", (event) => state.person || event.preventDefault());
  for (const radio of document.querySelectorAll('input[name="unreviewed"]')) {
    radio.addEventListener("change", linkExport);
  }
}

// A list keeps the focus and takes letters as a search. Whoever chose with the mouse goes on with
// the keys A, R, ...; whoever chose with the keys stays in the list.
function letGoAfterPointer(list) {
  let pointed = false;
  list.addEventListener("pointerdown", () => (pointed = true));
  list.addEventListener("keydown", () => (pointed = false));
  list.addEventListener("change", () => pointed && list.blur());
}

function listPairs(pairs) {
  const { names } = state;
  for (const [given, proposed, count] of pairs) {
    const option = element("option", "", `${names[given]} → ${names[proposed]} (${number(count)})`);
    option.value = `${given},${proposed}`;
    $("pair").append(option);
  }
}

async function count() {
  const told = state.told;
  const progress = await api.progress();
  if (told === state.told) update(progress); // else a decision's answer was newer
}

async function poll() {
  if (document.visibilityState !== "visible" || state.busy) return;
  if (state.stale) await restart();
  await count().catch(trouble);
}

function introduce(run) {
  state.names = run.names;
  state.compares = run.questions;
  $("unsure").hidden = !run.questions; // it is an answer, and needs a place to go
  if (run.questions && location.hash !== "#changes") state.mode = "questions";
  $("mode-questions").disabled = !run.questions;
  $("mode-questions").title = run.no_questions ?? "";
  $("title").textContent = run.title;
  document.title = `${run.title} · adacorr review`;
  $("withheld").hidden = !run.withheld;
  $("withheld").textContent = `${number(run.withheld)} of the proposals were withheld: their labels stay as given unless someone accepts them. They come first among the most doubtful.`;
  if (!run.changes && run.suspects) state.order = $("order").value = "suspicious";
  listPairs(run.pairs);
  questions.drawClasses();
}

async function start() {
  wire();
  onRestart(load);
  state.person = recall("name") ?? "";
  await restart();
  const counted = count(); // not before: the first sample matters more
  $("who").textContent = state.person || "Your name";
  if (!state.person) askName();
  setInterval(poll, POLL_MS);
  await counted;
  if (state.mode === "changes" && !state.queue.length) drawDone(); // it says how many there were
}

const introduced = api.run().then(introduce);
introduced.catch(() => {}); // whoever waits for it says so
start().catch(trouble);
