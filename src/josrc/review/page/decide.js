// What is decided on the samples of review.js, how far that is, and the choice of another label.
"use strict";

// --- decisions -----------------------------------------------------------------------------------

const NOTHING_TO_ACCEPT = "Nothing to accept in the spot check: keep (K), another label (L) or remove (R).";

function decide(action, label) {
  if (action === "accept" && spotChecking()) return tell(NOTHING_TO_ACCEPT);
  const aim = aimed();
  const open = undecided(aim);
  if (!open.length) return undefined; // the line above the buttons says why
  const rows = aim.map((sample) => sample.row);
  const copies = rows.length === 1 && budgeting() && $("with-copies").checked ? state.copies[rows[0]] ?? [] : [];
  for (const sample of open) showDecision(sample, "saving");
  const last = state.cards.get(rows[rows.length - 1]).place;
  selectNone();
  moveTo(nextOpen(last, new Set(rows)));
  const body = { rows, action, verdicts: state.verdicts };
  if (label !== undefined) body.label = label;
  if (copies.length) body.copies = copies.map((copy) => copy.row);
  state.work = state.work.then(async () => {
    try {
      const { changes } = await ask("/api/decide", body);
      for (const sample of open) showIfThere(sample); // another tab may have been faster
      applyChanges(changes);
      const left = rows.length - changes.length;
      const stay = left ? ` (already decided: ${number(left)})` : "";
      if (rows.length > 1) tell(`Saved: ${images(changes.length)}${stay}`);
      else if (changes.length > 1) tell(`Saved: ${images(changes.length)}, copies included`);
    } catch (error) {
      for (const sample of open) showIfThere(sample, "failed");
      tell(`Not saved: ${error.message}`);
      return;
    }
    await poll();
  });
  return undefined;
}

function showIfThere(sample, pending) {
  if (state.cards.get(sample.row)?.sample === sample) showDecision(sample, pending);
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
      if (!changes.length) return tell("Nothing to undo.");
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
    if (state.verdicts !== undefined && news.verdicts !== state.verdicts) return beginAnew();
    state.verdicts = news.verdicts;
    if (generation !== state.generation) return undefined;
    state.latest = Math.max(state.latest, news.latest);
    applyChanges(news.changes);
    showProgress(news.progress);
  } catch { /* told already */ }
  return undefined;
}

// josrc audit was run: other samples are flagged, for other reasons, in another order.
function beginAnew() {
  sessionStorage.setItem("news", "The verdicts are new: josrc audit was run in the meantime.");
  location.reload();
}

function showProgress(progress) {
  const { clean, mislabelled, out_of_distribution: out } = progress;
  const flagged = { samples: mislabelled.samples + out.samples, decided: mislabelled.decided + out.decided };
  const counts = { ...progress, flagged }; // borderline ones are not counted
  state.decided = flagged.decided + clean.decided;
  for (const button of $("verdicts").children) {
    const found = counts[button.value];
    if (found) button.querySelector("small").textContent = number(found.samples - found.decided);
  }
  const found = counts[state.filter.verdict];
  const checking = spotChecking();
  $("bar").hidden = !found;
  $("bar").max = Math.max(found?.samples ?? 0, 1);
  $("bar").value = found?.decided ?? 0;
  const left = budgeting() ? [looksDone(found)] : found ? [`${number(found.samples - found.decided)} of ${number(found.samples)} left`] : [];
  fill($("left"), checking ? spotFound(found) : left);
  $("left").classList.toggle("long", checking && found.decided === found.samples);
  $("left").title = checking ? "Samples drawn at random: how many labels are wrong?" : "Samples of this tab without a decision";
  showEnd();
}

const looksDone = ({ samples, decided, corrected }) =>
  `${number(decided)} of ${number(samples)} looks done, ${number(corrected)} corrected`;

// What a spot check has found so far, and at its end the command that makes use of it.
function spotFound({ samples, decided, wrong, low, high }) {
  const found = `${number(wrong)} of ${number(decided)} wrong`;
  if (decided < samples) return [`${found}, ${number(samples - decided)} left`];
  const sure = `95 % interval ${Math.round(low * 100)} to ${Math.round(high * 100)} %`;
  const rate = (wrong / Math.max(samples, 1)).toFixed(2);
  return [`${found} (${sure}): `, make("code", "", `${state.audit} --noise-rate ${rate}`)];
}

// --- another label -------------------------------------------------------------------------------

let choice = 0;
function openChooser() {
  const aim = undecided(aimed());
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
  const none = !$("choices").children.length;
  $("no-choice").textContent = none ? `No class has “${$("typed").value.trim()}” in its name. An image of no class: Esc, then R.` : "";
  markChoice();
}

function markChoice() {
  [...$("choices").children].forEach((item, place) => {
    item.setAttribute("aria-selected", String(place === choice));
    if (place === choice) item.scrollIntoView({ block: "nearest" });
  });
  $("typed").setAttribute("aria-activedescendant", $("choices").children.length ? `choice-${choice}` : "");
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
