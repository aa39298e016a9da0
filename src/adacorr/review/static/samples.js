// Samples: fetched ahead, and put on screen.

import * as api from "/api.js";
import { isGone, showBusy, state, trouble } from "/state.js";
import { showLoading, showMissing, showSample } from "/view.js";

const RETRY_MS = 1000; // between two tries at a sample that its source does not give
const KEPT = 300;
const AHEAD = 4;
const known = new Map(); // sample -> promise of its fields

export function sample(number) {
  if (!known.has(number)) {
    if (known.size > KEPT) known.delete(known.keys().next().value);
    const asked = api.fields(number);
    asked.then((got) => {
      if (got.image) new Image().src = api.imageAddress(number); // warms the browser's cache
    }, () => known.delete(number));
    known.set(number, asked);
  }
  return known.get(number);
}

export function warm() {
  if (state.grid) return;
  for (const next of state.queue.slice(1, 1 + AHEAD)) sample(next.sample).catch(() => {});
}

// Puts the sample of the first item on screen. Until it is there, nothing of the one before is, and
// no key decides. A source that does not answer is asked again.
export async function present(item) {
  const current = () => !state.grid && state.queue[0] === item;
  if (state.shown === item) return;
  state.shown = null;
  showBusy();
  showLoading();
  while (current() && state.shown !== item) {
    try {
      const got = await sample(item.sample);
      if (!current()) return;
      await showSample(item, got, api.imageAddress(item.sample));
      if (current()) state.shown = item;
    } catch (error) {
      if (!current()) return;
      const way = state.mode === "questions" ? "X passes over it" : "S skips it";
      showMissing(`The sample cannot be shown: ${error.message}. Trying again; ${way}.`);
      if (isGone(error)) trouble(error);
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
  showBusy();
}
