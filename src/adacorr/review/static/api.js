// Requests to the server of this page, and nothing else.

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// Part of every address: what the browser has kept from another review must not be shown in this
// one, and this page must not write into a later review on the same port.
const base = `/api/${document.querySelector('meta[name="adacorr-run"]').content}`;
const PATIENCE_MS = 30_000;
const APPLY_MS = 630_000; // the rule is fitted to the last answers first

async function ask(path, options, patience = PATIENCE_MS) {
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: AbortSignal.timeout(patience) });
  } catch {
    throw new Refused(0, "No connection to adacorr. Every decision that was confirmed is saved.");
  }
  if (answer.ok) return answer.json();
  let text = await answer.text();
  try {
    const detail = JSON.parse(text).detail;
    text = typeof detail === "string" ? detail : "The server did not understand the request.";
  } catch {
    // the guard answers in plain text
  }
  throw new Refused(answer.status, text);
}

const post = (path, body, patience) =>
  ask(
    path,
    {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    },
    patience,
  );

// Names this tab to the server, so that two tabs are given different changes. It outlives a
// reload: the changes that this tab was given stay its own.
function tabName() {
  const fresh = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
  try {
    const name = sessionStorage.getItem("adacorr-tab") ?? fresh;
    sessionStorage.setItem("adacorr-tab", name);
    return name;
  } catch {
    return fresh; // storage is forbidden
  }
}

const client = tabName();

export const run = () => ask("/api/run");
export const progress = () => ask(`${base}/progress?client=${client}`);
export const fields = (sample) => ask(`${base}/fields/${sample}`);
export const imageAddress = (sample) => `${base}/image/${sample}`;
export const exportAddress = (format, unreviewed) =>
  `${base}/export?format=${format}&unreviewed=${unreviewed}`;
export const decide = (reviewer, decisions) => post(`${base}/decide`, { reviewer, decisions });
export const undo = (reviewer) => post(`${base}/undo`, { reviewer });

export function queue(order, pair, limit) {
  const query = new URLSearchParams({ client, order, limit });
  if (pair) {
    query.set("given", pair[0]);
    query.set("proposed", pair[1]);
  }
  return ask(`${base}/queue?${query}`);
}

export function questions(reviewer, limit) {
  return ask(`${base}/questions?${new URLSearchParams({ client, reviewer, limit })}`);
}

export const outlook = () => ask(`${base}/outlook`);
export const beside = (item) =>
  ask(`${base}/beside/${item.row}?given=${item.given}&proposed=${item.proposed}`);
export const find = (text, among, after) =>
  ask(`${base}/find?${new URLSearchParams({ text, among, after })}`);
export const hint = (row) => ask(`${base}/hint/${row}`);
export const answer = (reviewer, row, label, blind, note) =>
  post(`${base}/answer`, { reviewer, row, label, blind, note });
export const unanswer = (reviewer) => post(`${base}/unanswer`, { reviewer });
export const apply = (reviewer) => post(`${base}/apply`, { reviewer }, APPLY_MS);
export const labelsAddress = () => `${base}/labels`;
export const certificateAddress = () => `${base}/certificate`;
