// What the page knows, and the rule that one piece of work is under way at a time.

import { $, say } from "/view.js";

export const state = {
  names: [],
  compares: false, // can the server say what to compare a sample with?
  person: "",
  mode: "changes", // or "questions"
  order: "doubtful",
  pair: null,
  grid: false,
  queue: [], // the first one is on screen
  shown: null, // the item whose sample is on screen, too
  round: 0, // grows with every change of the queue: an older answer of the server is out of date
  told: 0, // grows with every count that the server has sent
  busy: false,
  again: false, // mode, order, filter or layout have changed since the queue was asked for
  stale: false,
};

// For the eye, and for tests: whether a decision would be taken now.
export function showBusy() {
  const waiting = !state.grid && state.queue.length > 0 && state.shown !== state.queue[0];
  document.body.classList.toggle("busy", state.busy || waiting);
}

// Outside of `alone`, the first of the queue is on screen. Only `alone` changes what that is, one
// piece of work at a time. `restart` is what a change of mode, order, filter or layout asks for.
export async function alone(work) {
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

let load = async () => {};

export function onRestart(work) {
  load = work;
}

// It waits for a decision that is being sent.
export async function restart() {
  state.again = true;
  if (!state.busy) await alone(load);
}

export async function exclusively(work) {
  if (state.busy || document.querySelector("dialog[open]")) return;
  if (state.stale) await restart();
  else await alone(work);
}

// No decision about a sample that nobody has seen.
export function onScreen(item) {
  if (state.shown === item) return true;
  say("Not decided: its sample is not on screen yet.");
  return false;
}

export const isGone = (error) => error.status === 401 || error.status === 409;

export function trouble(error) {
  const banner = $("banner");
  banner.hidden = false;
  if (isGone(error)) {
    banner.replaceChildren("adacorr was started again: open the address that it printed, or ");
    const again = document.createElement("button");
    again.textContent = "reload";
    again.addEventListener("click", () => location.reload());
    banner.append(again);
  } else {
    banner.textContent = error.message;
  }
}
