// Drawing only: state in, page out. Every text from the run is set as text, never as HTML.

export const $ = (id) => document.getElementById(id);
export const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)}%`;
// No chance is shown as certain: it is an estimate.
export const chance = (x) => (x > 0.99 ? "over 99%" : percent(x, 0));
export const number = (x) => x.toLocaleString("en");

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function showProgress(progress) {
  const { total, accepted, rejected, other, skipped } = progress;
  const decided = accepted + rejected + other;
  const share = (n) => `${total ? (100 * n) / total : 0}%`;
  $("bar-accept").style.width = share(accepted);
  $("bar-reject").style.width = share(rejected + other);
  $("bar").setAttribute("aria-valuemax", total);
  $("bar").setAttribute("aria-valuenow", decided);
  const parts = [`${number(accepted)} accepted`, `${number(rejected)} rejected`];
  if (other) parts.push(`${number(other)} other class`);
  if (skipped) parts.push(`${number(skipped)} skipped`);
  if (progress.suspects) parts.push(`${number(progress.suspects_decided)} of ${number(progress.suspects)} suspects too`);
  $("counts").textContent = `${number(decided)} of ${number(total)} decided: ${parts.join(", ")}`;
  showAudit(progress.audit);
  const people = Object.entries(progress.reviewers).map(([name, count]) =>
    element("li", "", `${name}: ${number(count)}`),
  );
  $("people").replaceChildren(...(people.length ? people : [element("li", "", "nobody yet")]));
}

function showAudit(audit) {
  const { total } = audit;
  const goal = percent(audit.target, audit.target < 0.01 ? 2 : 0);
  const sure = percent(audit.confidence, 0);
  const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
  $("audit-start").disabled = total === 0;
  if (!total) {
    $("limit").textContent = "–";
    $("audit-text").textContent = "The run changed no label, so there is none to audit.";
    return;
  }
  if (!audit.reviewed) {
    $("limit").textContent = "–";
    $("audit-text").textContent = `Review a random sample to state how many of the ${number(total)} changes are wrong. ${plural(audit.needed, "review")} without a wrong one would show at most ${goal}.`;
    return;
  }
  const all = audit.reviewed === total;
  $("limit").textContent = `${all ? "" : "≤ "}${percent(audit.limit)}`;
  const found = `${plural(audit.reviewed, "change")} of the random sample reviewed, ${number(audit.wrong)} wrong. `;
  const stated = all
    ? `All are reviewed: exactly this share of the ${number(total)} changes is wrong.`
    : `With ${sure} confidence at most this share of the ${number(total)} changes is wrong.`;
  let more = "";
  if (audit.needed === null) more = ` A limit of ${goal} is out of reach: too many were wrong.`;
  else if (audit.needed > 0) more = ` ${plural(audit.needed, "more review")}, none wrong, would show at most ${goal}.`;
  else more = ` The target of ${goal} is reached.`;
  $("audit-text").textContent = found + stated + more;
}

export function showItem(item, names) {
  $("given").textContent = names[item.given];
  $("proposed").textContent = names[item.proposed];
  $("accept-to").textContent = `becomes ${names[item.proposed]}`;
  $("reject-to").textContent = `stays ${names[item.given]}`;
  $("where").textContent = `Index ${item.sample}${item.withheld ? " · withheld" : ""}${item.suspect ? " · suspect, kept as given so far" : ""}${item.skipped ? " · skipped before" : ""}`;
  $("chance").textContent = item.confidence === null ? "not estimated" : chance(item.confidence);
  $("ratio").textContent = item.ratio < 0.001 ? item.ratio.toExponential(1) : item.ratio.toFixed(3);
  $("bars").replaceChildren(...bars(item, names));
  $("ratio-why").textContent = why(item);
}

// The rule's ratio and the bars are two things: say how they hang together.
function why(item) {
  const p = new Map(item.bars);
  if (!p.get(item.proposed)) return "";
  const seen = p.get(item.given) / p.get(item.proposed);
  const times = `${(100 * seen).toFixed(0)}%`;
  return Math.abs(seen - item.ratio) < 0.02
    ? `By the model the given class is ${times} as likely as the suggested one: small means doubtful.`
    : `By the model alone the given class is ${times} as likely as the suggested one. The rule allows for how often such labels are wrong, and for how often the model is: that gives the ratio above, which decided.`;
}

export function bars(item, names) {
  if (!item.bars.length) return [element("li", "none", "This run stores no probabilities.")];
  return item.bars.map(([label, p]) => {
    const line = element("li");
    if (label === item.given) line.className = "given";
    if (label === item.proposed) line.className = "proposed";
    const track = element("span", "track");
    const fill = element("span", "fill");
    fill.style.width = `${100 * p}%`;
    track.append(fill);
    line.append(element("span", "name", names[label]), track, element("span", "value", percent(p)));
    return line;
  });
}

export function showLoading() {
  $("picture").hidden = $("fields").hidden = true;
  $("picture").removeAttribute("src");
  showMissing("Loading the sample…");
}

export function showMissing(text) {
  $("no-sample").hidden = false;
  $("no-sample").textContent = text;
}

// Resolves when the sample is on screen.
export async function showSample(item, sample, address) {
  const picture = $("picture");
  if (sample.image) {
    picture.src = address;
    picture.alt = `sample ${item.sample}`;
    await picture.decode().catch(() => {
      throw new Error("its picture did not arrive");
    });
  }
  picture.hidden = !sample.image;
  const lines = fieldLines(sample.fields, 16);
  $("fields").hidden = !lines.length;
  $("fields").replaceChildren(...lines);
  $("fields").scrollTop = 0;
  $("no-sample").hidden = sample.image || lines.length > 0;
  if (!$("no-sample").hidden) showMissing("No picture or row to show for this sample.");
}

const LONG = 80; // characters: more is a text, which is read at the top and over the whole width

export function fieldLines(fields, limit) {
  const all = Object.entries(fields).slice(0, limit);
  const isText = ([, value]) => value.length > LONG;
  const ordered = [...all.filter(isText), ...all.filter((entry) => !isText(entry))];
  return ordered.map(([key, value]) => {
    const line = element("div", value.length > LONG ? "text" : "");
    line.append(element("dt", "", key), element("dd", "", value));
    return line;
  });
}

export function card(item, names) {
  const made = element("button", "card");
  made.type = "button";
  made.disabled = true; // until its sample is on it
  made.setAttribute("aria-pressed", "false");
  made.dataset.flip = item.flip;
  const sample = element("span", "thumb");
  const change = element("span", "mini");
  change.append(
    element("span", "from", names[item.given]),
    element("span", "arrow", " → "),
    element("span", "to", names[item.proposed]),
  );
  const sure = item.confidence === null ? `ratio ${item.ratio.toFixed(3)}` : `${chance(item.confidence)} likely right`;
  const about = [`index ${item.sample}`, sure, ...(item.withheld ? ["withheld"] : [])];
  made.append(sample, change, element("span", "sure", about.join(" · ")));
  const line = element("li");
  line.append(made);
  return line;
}

export function fillThumb(button, sample, address) {
  const thumb = button.querySelector(".thumb");
  if (sample.image) {
    const picture = element("img");
    picture.alt = "";
    picture.addEventListener("load", () => (button.disabled = false));
    picture.src = address;
    thumb.replaceChildren(picture);
  } else {
    button.disabled = false;
    const text = Object.entries(sample.fields).map(([key, value]) => `${key}: ${value}`);
    thumb.replaceChildren(element("span", "text", text.join("\n") || "no picture"));
  }
}

export function say(text) {
  const status = $("status");
  status.textContent = text;
  status.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => status.classList.remove("shown"), 3500);
}
