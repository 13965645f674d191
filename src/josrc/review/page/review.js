// The page of the review. Names, labels and paths are hostile until proven otherwise: they enter
// the page as text (textContent) and never as markup. Nothing is called saved before the server
// has answered, and it answers when the disk has it.
"use strict";

const $ = (id) => document.getElementById(id);
const PAGE = 60;
const POLL = 1500;
const VERDICTS = [
  ["budget", "Budget"], // where there is one
  ["flagged", "Flagged"], ["mislabelled", "Mislabelled"], ["out_of_distribution", "Out of distribution"],
  ["borderline", "Borderline"], ["clean", "Clean"], ["spot_check", "Spot check"],
  ["disagreement", "Annotators disagree"], // where there are several of them
];

const state = {
  classes: [],
  audit: "", // the command that makes new verdicts on this run
  apply: "", // the command that writes the corrected data
  goOn: "", // the command that goes on with another budget
  copies: {}, // row -> its copies, of those in the budget
  ending: { latest: -1, text: "" }, // what a budget has brought, after a change
  filter: { verdict: "flagged", given: "", state: "open", search: "" },
  samples: [], // in the order of the queue, as far as they are loaded
  cards: new Map(), // row -> {sample, card, place in samples}
  cursor: 0,
  anchor: 0, // where a range begins
  selected: new Set(), // rows
  verdicts: undefined, // which ones are shown; new ones have another number
  decided: 0, // samples with a decision, of the class that is chosen
  latest: 0, // number of the last change that this page knows
  generation: 0, // of the filter: answers to an older one are thrown away
  loading: false,
  more: true,
  work: Promise.resolve(), // decisions go to the server one after the other
};

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

const number = (value) => value.toLocaleString("en");
// As in the report: only what is certain is 100 %.
function percent(share) {
  if (share > 0 && share < 0.005) return "< 1 %";
  return share >= 0.995 && share < 1 ? "> 99 %" : `${Math.round(100 * share)} %`;
}
const ALL_DECIDED = "All of these are already decided. Change them one by one, or undo.";
const images = (count) => (count === 1 ? "1 image" : `${number(count)} images`);

// --- talking to the server -----------------------------------------------------------------------

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    lost("The server does not answer. Everything shown as decided is on disk. Start josrc review again and open the address that it prints.");
    throw new Error("no answer");
  }
  if (answer.status === 403) {
    lost("This page belongs to a review that has ended. Open the latest address that josrc review printed.");
    throw new Error("refused");
  }
  $("banner").hidden = true;
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function lost(text) {
  $("banner").textContent = text;
  $("banner").hidden = false;
}

let fading;
function tell(text) {
  $("message").textContent = text;
  $("message").classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => $("message").classList.remove("shown"), 2500);
}

// --- the queue -----------------------------------------------------------------------------------

async function load() {
  if (state.loading || !state.more) return;
  state.loading = true;
  const generation = state.generation;
  const last = state.samples[state.samples.length - 1];
  const query = new URLSearchParams({ ...state.filter, after: last ? last.place : -1, limit: PAGE });
  try {
    const found = await ask(`/api/queue?${query}`);
    if (generation !== state.generation) return;
    if (!last) state.latest = found.latest;
    state.more = found.samples.length === PAGE;
    for (const sample of found.samples) addCard(sample);
    if (!last) moveTo(0);
    showEnd();
    showDetail();
  } catch {
    return; // told already; scrolling or polling tries again
  } finally {
    if (generation === state.generation) state.loading = false;
  }
  if (state.more && nearEnd()) load();
}

// Below the last card: that nothing is left, or was found.
function showEnd() {
  const { given, search, state: wanted } = state.filter;
  const narrowed = given || search || wanted !== "open";
  const ended = !state.more && (narrowed ? !state.samples.length : state.samples.every((sample) => sample.outcome));
  $("empty").hidden = !ended;
  if (!ended) return fill($("empty"), []);
  if (budgeting() && !narrowed) return showBudgetEnd();
  if (narrowed) return fill($("empty"), ["No sample in this tab matches. Try another tab, or change the class, state or search."]);
  const parts = ["Nothing left to decide here."];
  if (state.decided && !spotChecking()) parts.push(" Write the corrected data: ", make("code", "", state.apply));
  // Who has just decided on the last sample is somewhere above.
  if (fill($("empty"), parts) && state.samples.length) $("empty").scrollIntoView({ block: "nearest" });
  return undefined;
}

// What the looks of a budget have brought, what is left, and whether more of them pay.
async function showBudgetEnd() {
  const { latest, generation } = state;
  if (state.ending.latest !== latest) {
    state.ending.latest = latest;
    try {
      state.ending.text = (await ask("/api/budget")).text;
    } catch {
      state.ending.latest = -1; // the next poll tries again
    }
  }
  if (generation !== state.generation || state.samples.some((sample) => !sample.outcome)) return;
  const parts = [
    make("span", "ending", state.ending.text), make("span", "", "Write the corrected data: "), make("code", "", state.apply),
    make("span", "", " Continue with as many looks: "), make("code", "", state.goOn),
  ];
  if (fill($("empty"), parts) && state.samples.length) $("empty").scrollIntoView({ block: "nearest" });
}

// Only if it is new: somebody may be copying it, or have it read aloud. Returns whether it is.
function fill(element, parts) {
  if (element.textContent === parts.map((part) => part.textContent ?? part).join("")) return false;
  element.replaceChildren(...parts);
  return true;
}

const nearEnd = () => $("more").getBoundingClientRect().top < window.innerHeight + 800;

function restart() {
  state.generation += 1;
  Object.assign(state, { samples: [], cursor: 0, anchor: 0, more: true, loading: false });
  state.cards.clear();
  state.selected.clear();
  $("grid").replaceChildren();
  showEnd();
  load();
  poll();
}

function addCard(sample) {
  const card = make("li");
  card.id = `sample-${sample.row}`;
  card.setAttribute("role", "option");
  card.setAttribute("aria-selected", "false");
  const frame = make("div", "frame");
  frame.append(picture(`/thumbnail/${sample.row}`, frame, true));
  const caption = make("div", "caption");
  const meta = make("div", "meta");
  meta.append(make("span", "name", sample.id.split("/").pop()), make("span", "sure"));
  meta.title = sample.id;
  caption.append(make("div", "change"), meta);
  card.append(frame, caption);
  const place = state.samples.length;
  card.addEventListener("click", (event) => clicked(event, place));
  state.samples.push(sample);
  state.cards.set(sample.row, { sample, card, place });
  showDecision(sample);
  $("grid").append(card);
}

function picture(address, frame, lazy) {
  const image = make("img");
  image.alt = "";
  image.draggable = false;
  if (lazy) {
    image.loading = "lazy";
    image.fetchPriority = "low"; // a decision overtakes pictures that are still to come
  }
  image.addEventListener("load", () => {
    // Smoothed, so few pixels would be a blur; more are easier to judge that way.
    if (Math.max(image.naturalWidth, image.naturalHeight) <= 16) image.className = "pixelated";
  });
  image.addEventListener("error", () => frame.replaceChildren(make("span", "none", "no picture")));
  image.src = address;
  return image;
}

// In the spot check people judge for themselves, or it would find what the verdicts have found: what
// josrc thinks of a sample is shown once it is decided.
const spotChecking = () => state.filter.verdict === "spot_check";
const budgeting = () => state.filter.verdict === "budget";
const veiled = (sample) => spotChecking() && !sample.outcome;

// Before a decision the label and what josrc thinks of it, afterwards what holds.
function labelParts(sample) {
  const { given, outcome, verdict } = sample;
  if (veiled(sample) || outcome === "keep") return [make("span", "given", given)];
  if (outcome === "remove") return [make("span", "was", given)];
  if (!outcome && verdict === "clean") return [make("span", "clean", given)];
  const becomes = outcome ? make("span", "given", sample.label) : make("span", verdict, verdictText(sample));
  return [make("span", "was", given), make("span", "arrow", "→"), becomes];
}

function verdictText({ verdict, suggested }) {
  if (verdict === "mislabelled") return suggested || "?";
  return verdict === "clean" ? "clean" : "no class";
}

function decisionText(sample) {
  if (sample.outcome === "relabel") return `now ${sample.label}`;
  return { keep: "kept", remove: "removed" }[sample.outcome] || "";
}

function showDecision(sample, pending) {
  const { card } = state.cards.get(sample.row);
  const change = card.querySelector(".change");
  change.replaceChildren(...labelParts(sample));
  change.title = change.textContent;
  card.querySelector(".sure").textContent = veiled(sample) || sample.outcome ? "" : percent(sample.confidence);
  card.querySelector(".badge")?.remove();
  card.classList.toggle("decided", Boolean(sample.outcome));
  const text = pending ? { saving: "saving …", failed: "not saved" }[pending] : decisionText(sample);
  if (text) card.append(make("span", `badge ${pending || sample.outcome}`, text));
}

function applyChanges(changes) {
  for (const change of changes) {
    const known = state.cards.get(change.row);
    if (!known) continue;
    Object.assign(known.sample, { outcome: change.outcome, label: change.label });
    showDecision(known.sample);
  }
  showEnd();
  showDetail();
}

// --- cursor and selection ------------------------------------------------------------------------

function moveTo(place, { select = false, keepAnchor = false } = {}) {
  if (!state.samples.length) return showDetail();
  cardAt(state.cursor)?.classList.remove("cursor");
  state.cursor = Math.max(0, Math.min(place, state.samples.length - 1));
  const card = cardAt(state.cursor);
  card.classList.add("cursor");
  card.scrollIntoView({ block: "nearest" });
  $("grid").setAttribute("aria-activedescendant", card.id);
  if (select) selectRange(state.anchor, state.cursor);
  else if (!keepAnchor) state.anchor = state.cursor;
  showDetail();
  if (state.cursor > state.samples.length - 20) load();
  return undefined;
}

const cardAt = (place) => state.cards.get(state.samples[place]?.row)?.card;

function setSelected(row, on) {
  if (on) state.selected.add(row);
  else state.selected.delete(row);
  state.cards.get(row)?.card.setAttribute("aria-selected", String(on));
}

function selectNone() {
  for (const row of [...state.selected]) setSelected(row, false);
}

function selectRange(from, to) {
  selectNone();
  for (let place = Math.min(from, to); place <= Math.max(from, to); place += 1) {
    setSelected(state.samples[place].row, true);
  }
}

function toggle(place) {
  const { row } = state.samples[place];
  setSelected(row, !state.selected.has(row));
}

function clicked(event, place) {
  $("grid").focus({ preventScroll: true });
  if (event.shiftKey) return moveTo(place, { select: true });
  if (event.ctrlKey || event.metaKey) toggle(place);
  else selectNone();
  return moveTo(place);
}

function columns() {
  const cards = $("grid").children;
  let count = 1;
  while (count < cards.length && cards[count].offsetTop === cards[0].offsetTop) count += 1;
  return count;
}

function aimed() {
  if (state.selected.size) return state.samples.filter((sample) => state.selected.has(sample.row));
  return state.samples.length ? [state.samples[state.cursor]] : [];
}

// Those that a decision would change: among several only those without one. The server sees to it
// that none is written over (store.py), also if this page has not heard of it yet.
const undecided = (aim) => (aim.length > 1 ? aim.filter((sample) => !sample.outcome) : aim);

// --- the sample at the cursor --------------------------------------------------------------------

let shownRow;
function showDetail() {
  const sample = state.samples[state.cursor];
  $("detail").hidden = !sample;
  if (!sample) return;
  if (shownRow !== sample.row) {
    const image = picture(`/image/${sample.row}`, $("picture"), false);
    image.alt = "The image at the cursor";
    image.addEventListener("error", () => explain(sample.row));
    $("picture").replaceChildren(image);
    shownRow = sample.row;
    showCopies(sample.row);
  }
  $("labels").replaceChildren(...labelParts(sample).flatMap((part) => [part, " "]));
  const verdict = make("small", "", `(verdict: ${verdictText(sample)})`);
  $("decision").replaceChildren(...(sample.outcome ? [`Decided: ${decisionText(sample)} `, verdict] : []));
  $("decision").hidden = !sample.outcome;
  $("reason").textContent = veiled(sample) ? "Is the label right? The verdict is shown once you have decided." : sample.reason;
  $("path").textContent = sample.path || `sample ${sample.id}`;
  $("scores").replaceChildren(...(veiled(sample) ? [] : [
    ...score("Label is right", sample.p_clean), ...score("Belongs to no class", sample.p_ood),
    ...score("Certainty of the verdict", sample.confidence),
  ]));
  showAim();
}

// Whoever has seen an image knows its copies. Near ones may differ, so these are decided only if
// somebody says so.
function showCopies(row) {
  const copies = budgeting() ? state.copies[row] ?? [] : [];
  $("copies").hidden = !copies.length;
  $("with-copies").checked = copies.length > 0 && copies.every((copy) => !copy.near);
  const near = copies.some((copy) => copy.near) ? "near " : "";
  $("copies-text").textContent = `Decide for its ${copies.length === 1 ? `${near}copy` : `${number(copies.length)} ${near}copies`} too`;
  $("copy-pictures").replaceChildren(...copies.map((copy) => {
    const figure = make("figure");
    const frame = make("div", "frame");
    frame.append(picture(`/thumbnail/${copy.row}`, frame, true));
    figure.append(frame, make("figcaption", "", copy.given));
    return figure;
  }));
}

function showAim() {
  const aim = aimed();
  const open = undecided(aim);
  const left = aim.length - open.length;
  const many = open.length ? `Accept ${number(open.length)} suggestions` : "Accept";
  const stay = left ? ` (already decided: ${number(left)})` : "";
  fill($("aim"), [open.length ? `Decide on ${images(open.length)} at once${stay}` : ALL_DECIDED]);
  $("aim").hidden = aim.length < 2;
  $("accept-text").textContent = open.length === 1 ? acceptText(open[0]) : many;
  for (const button of document.querySelectorAll(".actions button:not([data-action=undo])")) button.disabled = !open.length;
}

function score(name, value) {
  const meter = make("meter");
  meter.value = value;
  const bar = make("dd");
  bar.append(meter);
  return [make("dt", "", name), bar, make("dd", "", percent(value))];
}

function acceptText(sample) {
  if (sample.verdict === "mislabelled") return `Accept: ${sample.suggested || "?"}`;
  return sample.verdict === "clean" ? "Accept: label is right" : "Accept: remove";
}

async function explain(row) {
  try {
    const text = await (await fetch(`/image/${row}`)).text();
    if (shownRow === row) $("picture").replaceChildren(make("span", "none", text));
  } catch { /* the placeholder says enough */ }
}
