// Name, export, help; and what the browser remembers.

import * as api from "/api.js";
import { state } from "/state.js";
import { $ } from "/view.js";

export function askName() {
  $("name").value = state.person;
  $("name-dialog").showModal();
  $("name").select();
}

export function setName() {
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
export function shut(dialog) {
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

export function recall(key) {
  try {
    return localStorage.getItem(`adacorr-${key}`);
  } catch {
    return null;
  }
}

export function openExport() {
  linkExport();
  $("export-dialog").showModal();
}

export function linkExport() {
  const policy = document.querySelector('input[name="unreviewed"]:checked').value;
  for (const format of ["csv", "parquet"]) {
    $(`export-${format}`).href = api.exportAddress(format, policy);
  }
}
