// The review page: one change at a time or a grid, keyboard first.

import * as api from "/api.js";
import { $, card, element, fillThumb, number, say, showItem, showLoading, showMissing, showPixels, showProgress, showSample } from "/view.js";

const AHEAD = 8; // changes fetched at once; the next ones are ready before they are needed
const GRID = 24;
const POLL_MS = 4000;
const RETRY_MS = 1000; // between two tries at a sample that its source does not give

const state = {
  names: [],
  person: "",
  order: "doubtful",
  pair: null,
  grid: false,
  queue: [], // the first one is on screen
  shown: null, // the item whose sample is on screen, too
  round: 0, // grows with every change of the queue: an older answer of the server is out of date
  told: 0, // grows with every count that the server has sent
  busy: false,
  again: false, // order, filter or layout have changed since the queue was asked for
  stale: false,
  samples: new Map(), // flip -> promise of its fields
};

// --- samples ------------------------------------------------------------------------------

function sample(flip) {
  if (!state.samples.has(flip)) {
    if (state.samples.size > 300) state.samples.delete(state.samples.keys().next().value);
    const asked = api.fields(flip);
    asked.then((got) => {
      if (got.image) new Image().src = api.imageAddress(flip); // warms the browser's cache
    }, () => state.samples.delete(flip));
    state.samples.set(flip, asked);
  }
  return state.samples.get(flip);
}

// --- the queue ----------------------------------------------------------------------------
//
// Outside of `alone`, the first of the queue is on screen. Only `alone` changes what that is, one
// piece of work at a time; a refill in the background adds behind it, and is thrown away when the
// round has changed since it was asked for.

async function refill() {
  const round = state.round;
  const found = await api.queue(state.order, state.pair, state.grid ? GRID : AHEAD);
  if (round !== state.round) return;
  const current = state.grid ? undefined : state.queue[0];
  state.queue = current ? [current, ...found.filter((item) => item.flip !== current.flip)] : found;
}

async function alone(work) {
  state.busy = true;
  showBusy();
  try {
    await work();
    $("banner").hidden = true;
  } catch (error) {
    trouble(error);
  } finally {
    state.busy = false;
    showBusy();
  }
  if (state.again) await restart();
}

// Another order, filter or layout. It waits for a decision that is being sent.
async function restart() {
  state.again = true;
  if (!state.busy) await alone(load);
}

async function load() {
  state.again = false;
  state.stale = true; // until it has succeeded: the poll tries again
  state.queue = [];
  state.round += 1;
  await Promise.all([refill(), introduced]);
  state.stale = false;
  if (!state.again) draw();
}

function draw() {
  const empty = state.queue.length === 0;
  $("done").hidden = !empty;
  $("single").hidden = empty || state.grid;
  $("grid").hidden = empty || !state.grid;
  if (empty) drawDone();
  else if (state.grid) drawGrid();
  else drawSingle();
}

function drawSingle() {
  const item = state.queue[0];
  showItem(item, state.names);
  present(item);
  for (const next of state.queue.slice(1, 5)) sample(next.flip).catch(() => {});
}

// Puts the sample of the first item on screen. Until it is there, nothing of the one before is, and
// no key decides. A source that does not answer is asked again.
async function present(item) {
  const current = () => !state.grid && state.queue[0] === item;
  if (state.shown === item) return;
  state.shown = null;
  showBusy();
  showLoading();
  while (current() && state.shown !== item) {
    try {
      const got = await sample(item.flip);
      if (!current()) return;
      await showSample(item, got, api.imageAddress(item.flip), state.names);
      if (current()) state.shown = item;
    } catch (error) {
      if (!current()) return;
      showMissing(`The sample cannot be shown: ${error.message}. Trying again; S skips it.`);
      if (error.status === 401 || error.status === 409) trouble(error);
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
  showBusy();
}

// For the eye, and for tests: whether a decision would be taken now.
function showBusy() {
  const waiting = state.busy || (!state.grid && state.queue.length > 0 && state.shown !== state.queue[0]);
  document.body.classList.toggle("busy", waiting);
}

function drawDone() {
  const none = state.total === 0;
  $("done-title").textContent = none ? "Nothing to review" : "Nothing left here";
  $("done-text").textContent = none
    ? "This run proposes no change: every given label was kept."
    : state.pair
      ? "Every change of this class pair is decided, or someone else is looking at it."
      : "Every proposed change is decided, or someone else is looking at it.";
}

// --- decisions ----------------------------------------------------------------------------

async function exclusively(work) {
  if (state.busy || document.querySelector("dialog[open]")) return;
  if (state.stale) await restart();
  else await alone(work);
}

function update(progress) {
  state.told += 1;
  state.total = progress.total;
  $("note").textContent = progress.note ?? "";
  $("note").hidden = !progress.note;
  showProgress(progress);
}

async function send(decisions) {
  const answer = await api.decide(state.person, decisions);
  state.round += 1;
  update(answer.progress);
  for (const other of answer.refused) {
    say(`${other.reviewer} already decided index ${sampleNumber(other.flip)}: ${other.choice}. Yours was not saved.`);
  }
  return answer.refused.length === 0;
}

const sampleNumber = (flip) => state.queue.find((item) => item.flip === flip)?.sample ?? "?";

const decide = (choice, label = null) =>
  exclusively(async () => {
    const item = state.queue[0];
    if (!item || state.grid) return;
    if (state.shown !== item && choice !== "skip") {
      say("Not decided: its sample is not on screen yet.");
      return;
    }
    const saved = await send([{ flip: item.flip, choice, label, seen: item.seen }]);
    if (saved) say(described(choice, item, label));
    if (state.again) return; // another view was asked for meanwhile
    state.queue.shift();
    if (!state.queue.length) await refill();
    draw();
    if (state.queue.length < 4) refill().then(warm, trouble);
  });

function warm() {
  if (!state.grid) for (const next of state.queue.slice(1, 5)) sample(next.flip).catch(() => {});
}

function described(choice, item, label) {
  const { names } = state;
  const what = {
    accept: `Accepted: ${names[item.proposed]}`,
    reject: `Rejected: stays ${names[item.given]}`,
    other: `Saved as ${names[label]}`,
    skip: "Skipped",
  }[choice];
  return `${what} (index ${item.sample})`;
}

const undo = () =>
  exclusively(async () => {
    const answer = await api.undo(state.person);
    state.round += 1;
    update(answer.progress);
    if (!answer.item) {
      say("You have no decision to take back.");
      return;
    }
    say(`Taken back: index ${answer.item.sample}`);
    if (state.again) return;
    if (state.grid) {
      state.queue = [];
      await refill();
    }
    state.queue = [answer.item, ...state.queue.filter((item) => item.flip !== answer.item.flip)];
    draw();
  });

// --- grid ---------------------------------------------------------------------------------

function drawGrid() {
  const lines = state.queue.map((item) => card(item, state.names));
  $("cards").replaceChildren(...lines);
  for (const item of state.queue) {
    sample(item.flip).then((got) => {
      const button = cardOf(item.flip);
      if (button) fillThumb(button, got, api.imageAddress(item.flip));
    }, trouble);
  }
  countSelected();
}

const cardOf = (flip) => $("cards").querySelector(`[data-flip="${Number(flip)}"]`);
const selected = () => [...$("cards").querySelectorAll('[aria-pressed="true"]')];

function select(button, on) {
  button.setAttribute("aria-pressed", String(on));
  countSelected();
}

function countSelected() {
  const count = selected().length;
  for (const place of document.querySelectorAll("[data-count]")) place.textContent = count;
  $("grid-accept").disabled = $("grid-reject").disabled = count === 0;
  $("grid-all").textContent = count && count === state.queue.length ? "Select none" : "Select all";
}

const decideSelected = (choice) =>
  exclusively(async () => {
    const flips = new Set(selected().map((button) => Number(button.dataset.flip)));
    const items = state.queue.filter((item) => flips.has(item.flip));
    if (!items.length) {
      say("Select some changes first.");
      return;
    }
    const saved = await send(items.map((item) => ({ flip: item.flip, choice, seen: item.seen })));
    if (saved) say(`${choice === "accept" ? "Accepted" : "Rejected"} ${number(items.length)}`);
    if (state.again) return;
    state.queue = [];
    await refill();
    draw();
    $("cards").querySelector("button")?.focus();
  });

function selectAll() {
  const buttons = [...$("cards").querySelectorAll("button:not(:disabled)")];
  const on = selected().length < buttons.length;
  for (const button of buttons) select(button, on);
}

function moveFocus(key) {
  const buttons = [...$("cards").querySelectorAll("button:not(:disabled)")];
  const at = buttons.indexOf(document.activeElement);
  const across = buttons.filter((b) => b.offsetTop === buttons[0]?.offsetTop).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[key];
  buttons[at < 0 ? 0 : Math.min(Math.max(at + step, 0), buttons.length - 1)]?.focus();
}

function toggleGrid() {
  state.grid = !state.grid;
  $("grid-toggle").setAttribute("aria-pressed", String(state.grid));
  restart();
}

// --- another class ------------------------------------------------------------------------

let matches = [];
let marked = -1;

function openOther() {
  if (state.busy || state.grid || !state.queue.length) return;
  $("other-input").value = "";
  listClasses();
  $("other-dialog").showModal();
  $("other-input").focus();
}

function listClasses() {
  const typed = $("other-input").value.trim().toLowerCase();
  const all = state.names.map((name, label) => ({ name, label }));
  const begins = ({ name, label }) => String(label) === typed || name.toLowerCase().startsWith(typed);
  const inside = ({ name }) => name.toLowerCase().includes(typed);
  const exact = all.filter(({ label }) => String(label) === typed);
  matches = [...new Set([...exact, ...all.filter(begins), ...all.filter(inside)])].slice(0, 50);
  $("other-list").replaceChildren(...matches.map(classOption));
  marked = -1; // nothing typed, nothing marked: Enter alone must not choose the first class
  $("other-input").removeAttribute("aria-activedescendant");
  if (typed) mark(0);
}

function classOption({ name, label }, at) {
  const option = element("li");
  option.id = `class-${label}`;
  option.setAttribute("role", "option");
  option.append(element("kbd", "", label), element("span", "", name));
  const { given, proposed } = state.queue[0];
  if (label === given || label === proposed) {
    option.append(element("small", "", label === given ? "given" : "suggested"));
  }
  option.addEventListener("click", () => chooseClass(at));
  return option;
}

function mark(at) {
  if (!matches.length) return;
  marked = Math.min(Math.max(at, 0), matches.length - 1);
  [...$("other-list").children].forEach((option, i) => option.setAttribute("aria-selected", String(i === marked)));
  $("other-list").children[marked].scrollIntoView({ block: "nearest" });
  $("other-input").setAttribute("aria-activedescendant", `class-${matches[marked].label}`);
}

function chooseClass(at) {
  const chosen = matches[at];
  if (!chosen) return;
  shut($("other-dialog"));
  const item = state.queue[0];
  // The classes on the table are an acceptance and a rejection: store them as what they are.
  if (chosen.label === item.proposed) decide("accept");
  else if (chosen.label === item.given) decide("reject");
  else decide("other", chosen.label);
}

function otherKeys(event) {
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (move) {
    event.preventDefault();
    mark(marked + move);
  } else if (event.key === "Enter") {
    event.preventDefault();
    chooseClass(marked);
  }
}

// --- name, export, help, trouble ----------------------------------------------------------

function askName() {
  $("name").value = state.person;
  $("name-dialog").showModal();
  $("name").select();
}

function setName() {
  const name = $("name").value.trim();
  if (!name) {
    $("name").focus();
    return;
  }
  state.person = name;
  remember("name", name);
  $("who").textContent = name;
  shut($("name-dialog"));
}

// A closed dialog keeps the focus until the next frame: a key pressed before would go to its field.
function shut(dialog) {
  dialog.close();
  if (dialog.contains(document.activeElement)) document.activeElement.blur();
}

function remember(key, value) {
  try {
    localStorage.setItem(`adacorr-${key}`, value);
  } catch {
    // private windows may forbid it; the page works without
  }
}

function recall(key) {
  try {
    return localStorage.getItem(`adacorr-${key}`);
  } catch {
    return null;
  }
}

function openExport() {
  linkExport();
  $("export-dialog").showModal();
}

function linkExport() {
  const policy = document.querySelector('input[name="unreviewed"]:checked').value;
  for (const format of ["csv", "parquet"]) {
    $(`export-${format}`).href = api.exportAddress(format, policy);
  }
}

function trouble(error) {
  const banner = $("banner");
  banner.hidden = false;
  if (error.status === 401 || error.status === 409) {
    banner.replaceChildren("adacorr was started again: open the address that it printed, or ");
    const again = element("button", "", "reload");
    again.addEventListener("click", () => location.reload());
    banner.append(again);
  } else {
    banner.textContent = error.message;
  }
}

// --- wiring -------------------------------------------------------------------------------

const KEYS = {
  a: () => (state.grid ? decideSelected("accept") : decide("accept")),
  r: () => (state.grid ? decideSelected("reject") : decide("reject")),
  o: openOther,
  s: () => decide("skip"),
  u: undo,
  g: toggleGrid,
  "?": () => $("help-dialog").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (document.querySelector("dialog[open]")) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  if (state.grid && event.key.startsWith("Arrow")) {
    event.preventDefault();
    moveFocus(event.key);
    return;
  }
  const act = KEYS[event.key.toLowerCase()];
  if (act) {
    event.preventDefault();
    act();
  }
}

function setOrder(order) {
  state.order = order;
  $("order").value = order;
  const audit = order === "audit";
  if (audit) {
    state.pair = null; // a filtered sample would say nothing about all changes
    $("pair").value = "";
  }
  $("pair").disabled = audit;
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

function wire() {
  const clicks = {
    accept: KEYS.a,
    reject: KEYS.r,
    other: openOther,
    skip: KEYS.s,
    undo,
    "grid-accept": KEYS.a,
    "grid-reject": KEYS.r,
    "grid-undo": undo,
    "grid-all": selectAll,
    "grid-toggle": toggleGrid,
    "done-undo": undo,
    "done-export": openExport,
    "export-open": openExport,
    "export-close": () => $("export-dialog").close(),
    "help-open": KEYS["?"],
    "help-close": () => $("help-dialog").close(),
    "other-cancel": () => shut($("other-dialog")),
    "audit-start": startAudit,
    "name-ok": setName,
    who: askName,
  };
  for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
  document.addEventListener("keydown", onKey);
  $("order").addEventListener("change", (event) => setOrder(event.target.value));
  $("pair").addEventListener("change", (event) => setPair(event.target.value));
  for (const id of ["order", "pair"]) letGoAfterPointer($(id));
  $("cards").addEventListener("click", (event) => {
    const button = event.target.closest("button.card");
    if (button) select(button, button.getAttribute("aria-pressed") !== "true");
  });
  $("other-input").addEventListener("input", listClasses);
  $("other-input").addEventListener("keydown", otherKeys);
  $("name").addEventListener("keydown", (event) => event.key === "Enter" && setName());
  $("name-dialog").addEventListener("cancel", (event) => state.person || event.preventDefault());
  for (const radio of document.querySelectorAll('input[name="unreviewed"]')) {
    radio.addEventListener("change", linkExport);
  }
  $("picture").addEventListener("load", showPixels);
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
  $("title").textContent = run.title;
  document.title = `${run.title} · adacorr review`;
  $("withheld").hidden = !run.withheld;
  $("withheld").textContent = `${number(run.withheld)} of the proposals were withheld: their labels stay as given unless someone accepts them. They come first among the most doubtful.`;
  listPairs(run.pairs);
}

async function start() {
  wire();
  await restart();
  const counted = count(); // not before: the first change matters more
  state.person = recall("name") ?? "";
  $("who").textContent = state.person || "Your name";
  if (!state.person) askName();
  setInterval(poll, POLL_MS);
  await counted;
  if (!state.queue.length) drawDone(); // it says how many there were
}

const introduced = api.run().then(introduce);
introduced.catch(() => {}); // whoever waits for it says so
start().catch(trouble);
