// Beside a proposed change: the nearest samples with their labels, and examples of both classes.

import * as api from "/api.js";
import { sample } from "/samples.js";
import { state } from "/state.js";
import { $, element, fillThumb } from "/view.js";

let drawn = 0; // grows with every change: late answers are thrown away

export async function showBeside(item) {
  const place = $("beside");
  const turn = ++drawn;
  place.replaceChildren();
  if (!state.compares) return;
  const got = await api.beside(item).catch(() => null); // it helps, and nothing depends on it
  if (turn !== drawn || !got) return;
  const parts = [
    ["Nearest samples, with their given labels", got.nearest],
    ...got.examples.map(({ label, rows }) => [`Given as ${state.names[label]}, and the model agrees most`, rows]),
  ];
  place.replaceChildren(...parts.filter(([, rows]) => rows.length).map(([title, rows]) => group(title, rows)));
}

function group(title, rows) {
  const made = element("section");
  const list = element("ul");
  list.append(...rows.map(neighbour));
  made.append(element("h2", "", title), list);
  return made;
}

function neighbour({ sample: number, given }) {
  const line = element("li");
  line.append(element("span", "thumb"), element("span", "mini", state.names[given]));
  sample(number).then((got) => fillThumb(line, got, api.imageAddress(number)), () => {});
  return line;
}
