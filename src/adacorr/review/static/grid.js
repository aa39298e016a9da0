// Many proposed changes at once.

import * as api from "/api.js";
import { draw, refill, send } from "/changes.js";
import { sample } from "/samples.js";
import { exclusively, restart, state, trouble } from "/state.js";
import { $, card, fillThumb, number, say } from "/view.js";

export function drawGrid() {
  const lines = state.queue.map((item) => card(item, state.names));
  $("cards").replaceChildren(...lines);
  for (const item of state.queue) {
    sample(item.sample).then((got) => {
      const button = cardOf(item.flip);
      if (button) fillThumb(button, got, api.imageAddress(item.sample));
    }, trouble);
  }
  countSelected();
}

const cardOf = (flip) => $("cards").querySelector(`[data-flip="${Number(flip)}"]`);
const selected = () => [...$("cards").querySelectorAll('[aria-pressed="true"]')];

export function select(button, on) {
  button.setAttribute("aria-pressed", String(on));
  countSelected();
}

function countSelected() {
  const count = selected().length;
  for (const place of document.querySelectorAll("[data-count]")) place.textContent = count;
  $("grid-accept").disabled = $("grid-reject").disabled = count === 0;
  $("grid-all").textContent = count && count === state.queue.length ? "Select none" : "Select all";
}

export const decideSelected = (choice) =>
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

export function selectAll() {
  const buttons = [...$("cards").querySelectorAll("button:not(:disabled)")];
  const on = selected().length < buttons.length;
  for (const button of buttons) select(button, on);
}

export function moveFocus(key) {
  const buttons = [...$("cards").querySelectorAll("button:not(:disabled)")];
  const at = buttons.indexOf(document.activeElement);
  const across = buttons.filter((b) => b.offsetTop === buttons[0]?.offsetTop).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[key];
  buttons[at < 0 ? 0 : Math.min(Math.max(at + step, 0), buttons.length - 1)]?.focus();
}

export function toggleGrid() {
  state.grid = !state.grid;
  $("grid-toggle").setAttribute("aria-pressed", String(state.grid));
  restart();
}
