// Proposed changes, one at a time: accept, reject, another class, skip, undo.

import * as api from "/api.js";
import { showBeside } from "/beside.js";
import { drawGrid } from "/grid.js";
import { drawQuestion } from "/questions.js";
import { present, warm } from "/samples.js";
import { exclusively, onScreen, state, trouble } from "/state.js";
import { $, number, say, showItem, showProgress } from "/view.js";

const AHEAD = 8; // changes fetched at once; the next ones are ready before they are needed
const GRID = 24;

// A refill in the background adds behind the first, and is thrown away when the round has changed
// since it was asked for.
export async function refill() {
  const round = state.round;
  const found = await api.queue(state.order, state.pair, state.grid ? GRID : AHEAD);
  if (round !== state.round) return;
  const current = state.grid ? undefined : state.queue[0];
  state.queue = current ? [current, ...found.filter((item) => item.flip !== current.flip)] : found;
}

export function draw() {
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
  $("change-note").value = "";
  present(item).then(() => state.queue[0] === item && showBeside(item));
  warm();
}

export function drawDone() {
  const none = state.total === 0;
  $("done-title").textContent = none ? "Nothing to review" : "Nothing left here";
  $("done-text").textContent = none
    ? "This run proposes no change: every given label was kept."
    : state.order === "suspicious"
      ? "Every suspect is decided, or someone else is looking at it."
      : state.pair
      ? "Every change of this class pair is decided, or someone else is looking at it."
      : "Every proposed change is decided, or someone else is looking at it.";
}

export function update(progress) {
  state.told += 1;
  state.total = progress.total;
  $("note").textContent = progress.note ?? "";
  $("note").hidden = !progress.note;
  showProgress(progress);
}

export async function send(decisions) {
  const answer = await api.decide(state.person, decisions);
  state.round += 1;
  update(answer.progress);
  for (const other of answer.refused) {
    say(`${other.reviewer} already decided index ${sampleNumber(other.flip)}: ${other.choice}. Yours was not saved.`);
  }
  return answer.refused.length === 0;
}

const sampleNumber = (flip) => state.queue.find((item) => item.flip === flip)?.sample ?? "?";

export const decide = (choice, label = null) =>
  exclusively(async () => {
    const item = state.queue[0];
    if (!item || state.grid) return;
    if (choice !== "skip" && !onScreen(item)) return;
    const note = $("change-note").value.trim();
    const saved = await send([{ flip: item.flip, choice, label, seen: item.seen, note }]);
    if (saved) say(described(choice, item, label));
    await advance();
  });

// The next change; unless another view was asked for meanwhile.
async function advance() {
  if (state.again) return;
  state.queue.shift();
  if (!state.queue.length) await refill();
  draw();
  if (state.queue.length < 4) refill().then(warm, trouble);
}

// Nobody can tell what it is: an answer of its own, and the change waits at the end.
export const cannotTell = () =>
  exclusively(async () => {
    const item = state.queue[0];
    if (!item || state.grid) return;
    await api.answer(state.person, item.row, null, false, $("change-note").value.trim());
    await send([{ flip: item.flip, choice: "skip", label: null, seen: item.seen }]);
    say(`Saved: cannot tell (index ${item.sample})`);
    await advance();
  });

let sought = ""; // the same text again finds the next sample

// Puts a sample on screen: by its index, its id or path, or a text in it.
export const goTo = (text) =>
  exclusively(async () => {
    const asking = state.mode === "questions";
    const after = text === sought ? (state.queue[0]?.sample ?? -1) : -1;
    const { item, found } = await api.find(text, asking ? "questions" : "changes", after);
    sought = text;
    state.round += 1;
    state.queue = [item, ...state.queue.filter((other) => other.row !== item.row)];
    if (asking) drawQuestion();
    else draw();
    say(found === 1 ? "1 sample found" : `${number(found)} samples found; Enter again for the next`);
  });

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

export const undo = () =>
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
