// The page of the review. Names, labels and paths are hostile until proven otherwise: they enter
// the page as text (textContent) and never as markup. Nothing is called saved before the server
// has answered, and it answers when the disk has it.
"use strict";

const $ = (id) => document.getElementById(id);
const PAGE = 60;
const POLL = 1500;
const VERDICTS = [
  ["flagged", "Flagged"], ["mislabelled", "Mislabelled"], ["out_of_distribution", "Out of distribution"],
  ["borderline", "Borderline"], ["clean", "Clean"], ["spot_check", "Spot check"],
];

const state = {
  classes: [],
  filter: { verdict: "flagged", given: "", state: "open", search: "" },
  samples: [], // in the order of the queue, as far as they are loaded
  cards: new Map(), // row -> {sample, card, place in samples}
  cursor: 0,
  anchor: 0, // where a range begins
  selected: new Set(), // rows
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
const percent = (value) => `${Math.round(value * 100)} %`;
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
    lost("This page belongs to a review that has ended. Open the address that josrc review printed last.");
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
    $("empty").hidden = state.samples.length > 0;
    $("empty").textContent = state.filter.state === "open" ? "Nothing is left to decide here." : "No sample fits.";
    showDetail();
  } catch {
    return; // told already; scrolling or polling tries again
  } finally {
    if (generation === state.generation) state.loading = false;
  }
  if (state.more && nearEnd()) load();
}

const nearEnd = () => $("more").getBoundingClientRect().top < window.innerHeight + 800;

function restart() {
  state.generation += 1;
  Object.assign(state, { samples: [], cursor: 0, anchor: 0, more: true, loading: false });
  state.cards.clear();
  state.selected.clear();
  $("grid").replaceChildren();
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
  const change = make("div", "change");
  change.append(...labelParts(sample));
  change.title = change.textContent;
  const meta = make("div", "meta");
  meta.append(make("span", "", sample.id.split("/").pop()), make("span", "", percent(sample.confidence)));
  meta.firstChild.classList.add("name");
  meta.title = sample.id;
  caption.append(change, meta);
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
    if (Math.max(image.naturalWidth, image.naturalHeight) <= 64) image.className = "pixelated";
  });
  image.addEventListener("error", () => frame.replaceChildren(make("span", "none", "no picture")));
  image.src = address;
  return image;
}

function labelParts(sample) {
  if (sample.verdict === "mislabelled") {
    return [
      make("span", "was", sample.given), make("span", "arrow", "→"),
      make("span", "mislabelled", sample.suggested || "?"),
    ];
  }
  if (sample.verdict === "out_of_distribution") {
    return [
      make("span", "was", sample.given), make("span", "arrow", "→"),
      make("span", "out_of_distribution", "no class"),
    ];
  }
  return [make("span", "clean", sample.given)];
}

function decisionText(sample) {
  if (sample.outcome === "relabel") return `now ${sample.label}`;
  return { keep: "kept", remove: "removed" }[sample.outcome] || "";
}

function showDecision(sample, pending) {
  const { card } = state.cards.get(sample.row);
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
  }
  $("labels").replaceChildren(...labelParts(sample).flatMap((part) => [part, " "]));
  $("decision").textContent = sample.outcome ? `Decided: ${decisionText(sample)}` : "";
  $("decision").hidden = !sample.outcome;
  $("reason").textContent = sample.reason;
  $("path").textContent = sample.path || `sample ${sample.id}`;
  $("scores").replaceChildren(
    ...score("Label is right", sample.p_clean), ...score("Belongs to no class", sample.p_ood),
    ...score("Certainty of the verdict", sample.confidence),
  );
  const aim = aimed();
  $("aim").textContent = aim.length > 1 ? `Decide on ${images(aim.length)} at once` : "";
  $("aim").hidden = aim.length < 2;
  $("accept-text").textContent = aim.length > 1 ? `Accept ${number(aim.length)} suggestions` : acceptText(aim[0]);
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

// --- decisions -----------------------------------------------------------------------------------

function decide(action, label) {
  const aim = aimed();
  if (!aim.length) return;
  const rows = aim.map((sample) => sample.row);
  for (const sample of aim) showDecision(sample, "saving");
  const last = state.cards.get(rows[rows.length - 1]).place;
  selectNone();
  moveTo(nextOpen(last, new Set(rows)));
  const body = label === undefined ? { rows, action } : { rows, action, label };
  state.work = state.work.then(async () => {
    try {
      const { changes } = await ask("/api/decide", body);
      applyChanges(changes);
      if (rows.length > 1) tell(`Saved: ${images(rows.length)}`);
    } catch (error) {
      for (const sample of aim) if (state.cards.has(sample.row)) showDecision(sample, "failed");
      tell(`Not saved: ${error.message}`);
      return;
    }
    await poll();
  });
}

function nextOpen(from, without) {
  for (let place = from + 1; place < state.samples.length; place += 1) {
    const sample = state.samples[place];
    if (!sample.outcome && !without.has(sample.row)) return place;
  }
  return Math.min(from + 1, state.samples.length - 1);
}

function undo() {
  state.work = state.work.then(async () => {
    try {
      const { changes } = await ask("/api/undo", {});
      if (!changes.length) return tell("There is nothing to undo.");
      applyChanges(changes);
      const known = state.cards.get(changes[0].row);
      if (known) moveTo(known.place);
      tell(`Undone: ${images(changes.length)}${known ? "" : ", not among those shown"}`);
    } catch (error) {
      return tell(`Not undone: ${error.message}`);
    }
    return poll();
  });
}

// Other tabs and other people at the same run decide too.
async function poll() {
  const generation = state.generation;
  const query = new URLSearchParams({ since: state.latest, given: state.filter.given });
  try {
    const news = await ask(`/api/changes?${query}`);
    if (generation !== state.generation) return;
    state.latest = Math.max(state.latest, news.latest);
    applyChanges(news.changes);
    showProgress(news.progress);
  } catch { /* told already */ }
}

function showProgress(progress) {
  const wrong = ["mislabelled", "out_of_distribution"];
  const sum = (names, key) => names.reduce((total, name) => total + progress[name][key], 0);
  const checking = state.filter.verdict === "spot_check";
  const counted = checking ? ["spot_check"] : wrong;
  const samples = sum(counted, "samples");
  const decided = sum(counted, "decided");
  $("bar").max = Math.max(samples, 1);
  $("bar").value = decided;
  $("left").textContent = checking ? spotFound(progress.spot_check) : `${number(samples - decided)} of ${number(samples)} left`;
  $("left").classList.toggle("long", checking && decided === samples);
  $("left").title = checking ? "Samples drawn at random: how many labels are wrong?" : "Flagged samples without a decision";
  for (const button of $("verdicts").children) {
    const names = button.value === "flagged" ? wrong : [button.value];
    if (button.value === "borderline") continue;
    button.querySelector("small").textContent = number(sum(names, "samples") - sum(names, "decided"));
  }
}

// What a spot check has found so far, and at its end the command that makes use of it.
function spotFound({ samples, decided, wrong }) {
  const found = `${number(wrong)} of ${number(decided)} wrong`;
  return decided < samples ? `${found}, ${number(samples - decided)} left`
    : `${found}: josrc audit RUN --noise-rate ${(wrong / Math.max(samples, 1)).toFixed(2)}`;
}

// --- another label -------------------------------------------------------------------------------

let choice = 0;
function openChooser() {
  const aim = aimed();
  if (!aim.length) return;
  $("chooser-title").textContent = aim.length > 1 ? `A label for ${images(aim.length)}` : `Instead of ${aim[0].given}`;
  $("typed").value = "";
  showChoices();
  $("chooser").showModal();
  $("typed").focus();
}

function matching() {
  const typed = $("typed").value.trim().toLowerCase();
  const names = state.classes.map((found) => found.name);
  const begins = names.filter((name) => name.toLowerCase().startsWith(typed));
  const holds = names.filter((name) => !name.toLowerCase().startsWith(typed) && name.toLowerCase().includes(typed));
  return [...begins, ...holds].slice(0, 100);
}

function showChoices() {
  choice = 0;
  $("choices").replaceChildren(...matching().map((name, place) => {
    const item = make("li", "", name);
    item.id = `choice-${place}`;
    item.setAttribute("role", "option");
    item.addEventListener("click", () => choose(name));
    return item;
  }));
  markChoice();
}

function markChoice() {
  [...$("choices").children].forEach((item, place) => {
    item.setAttribute("aria-selected", String(place === choice));
    if (place === choice) item.scrollIntoView({ block: "nearest" });
  });
  $("typed").setAttribute("aria-activedescendant", `choice-${choice}`);
}

function choose(name) {
  $("chooser").close();
  $("grid").focus({ preventScroll: true });
  if (name !== undefined) decide("label", name);
}

function chooserKey(event) {
  const count = $("choices").children.length;
  if (event.key === "Enter") {
    event.preventDefault();
    if (count) choose(matching()[choice]);
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && count) {
    event.preventDefault();
    choice = (choice + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
    markChoice();
  }
}

// --- keys ----------------------------------------------------------------------------------------

const ACTIONS = {
  accept: () => decide("accept"), keep: () => decide("keep"), remove: () => decide("remove"),
  label: openChooser, undo,
};
const KEYS = {
  a: ACTIONS.accept, k: ACTIONS.keep, l: openChooser, r: ACTIONS.remove, u: undo,
  x: () => toggle(state.cursor), " ": () => toggle(state.cursor),
  Escape: selectNone, "/": () => $("search").focus(), "?": () => $("help").showModal(),
};
const ARROWS = {
  ArrowRight: () => 1, ArrowLeft: () => -1, ArrowDown: columns, ArrowUp: () => -columns(),
  PageDown: () => 4 * columns(), PageUp: () => -4 * columns(), Home: () => -Infinity, End: () => Infinity,
};

function pressed(event) {
  if (document.querySelector("dialog[open]") || event.altKey || event.isComposing) return;
  if (event.target.closest("input, select")) {
    if (event.key === "Escape" || (event.key === "Enter" && event.target === $("search"))) $("grid").focus();
    return;
  }
  const command = event.ctrlKey || event.metaKey;
  if (command && event.key.toLowerCase() === "a" && state.samples.length) {
    event.preventDefault();
    selectRange(0, state.samples.length - 1);
    return showDetail();
  }
  if (command) return undefined;
  if (event.target.closest("button") && [" ", "Enter"].includes(event.key)) return undefined;
  if (ARROWS[event.key]) {
    event.preventDefault();
    return moveTo(state.cursor + ARROWS[event.key](), { select: event.shiftKey });
  }
  const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act || (event.repeat && event.key !== "u")) return undefined;
  event.preventDefault();
  act();
  return showDetail();
}

// --- the beginning -------------------------------------------------------------------------------

function showFilter() {
  for (const button of $("verdicts").children) {
    button.setAttribute("aria-pressed", String(button.value === state.filter.verdict));
  }
}

function filterBy(key, value) {
  if (state.filter[key] === value) return;
  state.filter[key] = value;
  showFilter();
  restart();
}

async function begin() {
  history.replaceState(null, "", "/"); // the token has done its work: it need not stay in view
  for (const [value, name] of VERDICTS) {
    const button = make("button", "", `${name} `);
    button.type = "button";
    button.value = value;
    button.append(make("small"));
    button.addEventListener("click", () => filterBy("verdict", value));
    $("verdicts").append(button);
  }
  showFilter();
  $("given").addEventListener("change", () => filterBy("given", $("given").value));
  $("state").addEventListener("change", () => filterBy("state", $("state").value));
  let typing;
  $("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => filterBy("search", $("search").value.trim()), 250);
  });
  $("typed").addEventListener("input", showChoices);
  $("typed").addEventListener("keydown", chooserKey);
  $("help-button").addEventListener("click", () => $("help").showModal());
  for (const button of document.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => { ACTIONS[button.dataset.action](); showDetail(); });
  }
  document.addEventListener("keydown", pressed);
  const about = await ask("/api/about");
  state.classes = about.classes;
  $("run").textContent = about.name;
  document.title = `${about.name} · josrc review`;
  for (const { name, flagged } of about.classes) {
    $("given").append(new Option(`${name} (${number(flagged)})`, name));
  }
  $("state").value = state.filter.state;
  $("given").value = "";
  $("search").value = "";
  restart();
  // Only now: a queue that is loaded twice would take cards away from under the first key.
  new IntersectionObserver(() => load(), { rootMargin: "800px" }).observe($("more"));
  $("grid").focus({ preventScroll: true });
  setInterval(() => { if (!document.hidden) poll(); }, POLL);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
}

begin().catch(() => {}); // the banner says what is wrong
