// Questions: which class is this? Neither the given label nor the model's view is on screen, unless
// the person switches them on; then the answer says so.

import * as api from "/api.js";
import { chooseAmong } from "/classes.js";
import { present, warm } from "/samples.js";
import { alone, exclusively, onScreen, state, trouble } from "/state.js";
import { $, bars, element, number, percent, say } from "/view.js";

const AHEAD = 8;
const KEYS = "1234567890";
const FEW = KEYS.length; // so many classes have a key each; among more one searches
const USELESS = 0.5; // a limit above this says nothing that anyone could use
const POLL_MS = 700;
const FRESH_MS = 20_000; // after this the poll slows down: a large run takes its time

let hinted = null; // the item whose labels have been shown
let polling = 0;

export async function refillQuestions() {
  const round = state.round;
  const found = await api.questions(state.person, AHEAD);
  if (round !== state.round) return;
  const current = state.queue[0];
  state.queue = current ? [current, ...found.filter((item) => item.row !== current.row)] : found;
}

export function drawQuestion() {
  const item = state.queue[0];
  $("single").hidden = !item;
  $("done").hidden = Boolean(item);
  if (!item) {
    $("done-title").textContent = "No question left";
    $("done-text").textContent = "Every row that the page asks about is answered, or someone else is looking at it.";
    return;
  }
  $("ask-where").textContent = `Index ${item.sample}`;
  $("where").textContent = `Index ${item.sample}`;
  hinted = null;
  $("hint").hidden = true;
  $("note-text").value = "";
  if ($("hint-switch").checked) showHint();
  present(item);
  warm();
}

// Digits are their own keys; other classes have the keys from left to right.
function keyOf(label) {
  const own = state.names.every((name) => name.length === 1 && KEYS.includes(name));
  return own ? state.names[label] : KEYS[label];
}

export function drawClasses() {
  const few = state.names.length <= FEW;
  $("class-keys").hidden = !few;
  $("class-search").hidden = few;
  if (!few) return;
  const buttons = state.names.map((name, label) => {
    const button = element("button", "class-key");
    button.append(element("kbd", "", keyOf(label)), element("span", "", name));
    button.addEventListener("click", () => answer(label));
    return button;
  });
  $("class-keys").replaceChildren(...buttons);
}

export const answer = (label) =>
  exclusively(async () => {
    const item = state.queue[0];
    if (!item) return;
    // Passing over a sample that cannot be shown is honest: nobody could tell.
    if (label !== null && !onScreen(item)) return;
    const blind = hinted !== item;
    const status = await api.answer(state.person, item.row, label, blind, $("note-text").value.trim());
    state.round += 1;
    say(label === null ? "Saved: cannot tell" : `Saved: ${state.names[label]}`);
    showStatus(status);
    if (state.again) return;
    state.queue.shift();
    state.shown = null;
    if (!state.queue.length) await refillQuestions();
    drawQuestion();
    if (state.queue.length < 4) refillQuestions().then(warm, trouble);
  });

export const undoAnswer = () =>
  exclusively(async () => {
    const { item, status } = await api.unanswer(state.person);
    state.round += 1;
    showStatus(status);
    if (!item) {
      say("You have no answer to take back.");
      return;
    }
    say(`Taken back: index ${item.sample}`);
    if (state.again) return;
    state.queue = [item, ...state.queue.filter((other) => other.row !== item.row)];
    drawQuestion();
  });

export function searchClass(typed = "") {
  if (state.busy || !state.queue.length) return;
  chooseAmong(state.names, () => "", (label) => answer(label), typed);
}

// Which key means which answer; undefined: none.
export function questionKey(key) {
  const few = state.names.length <= FEW ? state.names.map((_, label) => keyOf(label)) : [];
  if (few.includes(key)) return () => answer(few.indexOf(key));
  if (key === "Enter" || key === "/") return () => searchClass();
  return { x: () => answer(null), u: undoAnswer, h: toggleHint, n: () => $("note-text").focus() }[key];
}

export function toggleHint() {
  $("hint-switch").checked = !$("hint-switch").checked;
  showHint();
}

export async function showHint() {
  const item = state.queue[0];
  $("hint").hidden = !$("hint-switch").checked;
  if (!item || $("hint").hidden) return;
  hinted = item;
  $("hint-given").textContent = "…";
  $("hint-bars").replaceChildren();
  try {
    const got = await api.hint(item.row);
    if (state.queue[0] !== item) return;
    $("hint-given").textContent = state.names[got.given];
    $("hint-bars").replaceChildren(...bars({ ...got, proposed: -1 }, state.names));
  } catch (error) {
    trouble(error);
  }
}

// --- what the answers do ------------------------------------------------------------------

export function showStatus(status) {
  const { outlook } = status;
  const count = `${number(status.answers)} answer${status.answers === 1 ? "" : "s"}`;
  const aside = [];
  if (status.cannot_tell) aside.push(`${status.cannot_tell} cannot tell`);
  if (status.shown) aside.push(`${status.shown} with the labels shown`);
  $("answer-count").textContent = aside.length ? `${count} (${aside.join(", ")})` : count;
  $("outlook-error").hidden = !status.problem;
  $("outlook-error").textContent = status.problem ? `Not computed: ${status.problem}` : "";
  $("outlook-limit").textContent = outlook && outlook.wrong_after < USELESS ? `≤ ${percent(outlook.wrong_after)}` : "–";
  $("outlook-text").textContent = outlook ? outlook.sentence : "The first outlook is being computed.";
  $("outlook-more").textContent = outlook ? outlook.more : "";
  $("outlook-basis").textContent = outlook ? outlook.basis : "";
  $("outlook-age").hidden = status.up_to_date || Boolean(status.problem);
  $("agreement").replaceChildren(...status.agreement.map((line) => element("li", "", line)));
  $("apply").disabled = !outlook;
  $("applied").hidden = !status.applied;
  follow(status);
}

// Asks for the outlook until it covers all answers; answering goes on meanwhile.
function follow(status) {
  clearTimeout(polling);
  if (status.up_to_date || status.problem) {
    follow.since = undefined;
    return;
  }
  follow.since ??= Date.now();
  const pause = Date.now() - follow.since > FRESH_MS ? 5 * POLL_MS : POLL_MS;
  polling = setTimeout(() => api.outlook().then(showStatus, trouble), pause);
}

export const apply = () => {
  if (state.busy) return;
  return alone(async () => {
    $("apply").disabled = true;
    const done = await api.apply(state.person);
    showStatus(done.status);
    $("applied-text").textContent = `${done.sentence} Written into the run: ${done.labels} and ${done.certificate}.`;
    $("applied-labels").href = api.labelsAddress();
    $("applied-certificate").href = api.certificateAddress();
    $("applied-dialog").showModal();
  });
};

export function linkApplied() {
  $("applied-labels").href = api.labelsAddress();
  $("applied-certificate").href = api.certificateAddress();
  $("applied-text").textContent = "The labels were applied before; apply again after more answers.";
  $("applied-dialog").showModal();
}

