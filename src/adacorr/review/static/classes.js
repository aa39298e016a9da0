// The search for a class: by name or number, among many.

import { $, element } from "/view.js";
import { shut } from "/dialogs.js";

let all = [];
let about = () => "";
let chosen = () => {};
let matches = [];
let marked = -1;

// Asks for one of the classes; `remark` says something of a class, `then` is told its number.
export function chooseAmong(names, remark, then, typed = "") {
  [all, about, chosen] = [names.map((name, label) => ({ name, label })), remark, then];
  $("other-input").value = typed;
  listClasses();
  $("other-dialog").showModal();
  $("other-input").focus();
}

function listClasses() {
  const typed = $("other-input").value.trim().toLowerCase();
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
  if (about(label)) option.append(element("small", "", about(label)));
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
  if (!matches[at]) return;
  shut($("other-dialog"));
  chosen(matches[at].label);
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

export function wireClasses() {
  $("other-input").addEventListener("input", listClasses);
  $("other-input").addEventListener("keydown", otherKeys);
  $("other-cancel").addEventListener("click", () => shut($("other-dialog")));
}
