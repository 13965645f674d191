// Keys, filters, and the beginning of it all: the last of the scripts.
"use strict";

// --- keys ----------------------------------------------------------------------------------------

const ACTIONS = {
  accept: () => decide("accept"), keep: () => decide("keep"), remove: () => decide("remove"),
  label: openChooser, undo,
};
const KEYS = {
  a: ACTIONS.accept, k: ACTIONS.keep, l: openChooser, r: ACTIONS.remove, u: undo,
  c: () => { if (!$("copies").hidden) $("with-copies").checked = !$("with-copies").checked; },
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
  const orders = { spot_check: "drawn at random", disagreement: "those most divided first", budget: "those that correct most first" };
  $("grid").setAttribute("aria-label", `Samples, ${orders[state.filter.verdict] ?? "the most suspicious first"}`);
  document.querySelector("[data-action=accept]").hidden = spotChecking();
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
    button.hidden = value === "disagreement" || value === "budget";
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
  $("with-copies").addEventListener("change", () => $("grid").focus({ preventScroll: true }));
  $("typed").addEventListener("input", showChoices);
  $("typed").addEventListener("keydown", chooserKey);
  $("help-button").addEventListener("click", () => $("help").showModal());
  for (const button of document.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => { ACTIONS[button.dataset.action](); showDetail(); });
  }
  document.addEventListener("keydown", pressed);
  const about = await ask("/api/about");
  Object.assign(state, { classes: about.classes, audit: about.audit, apply: about.apply });
  for (const button of $("verdicts").children) {
    if (button.value === "disagreement") button.hidden = about.disagreements === 0;
    if (button.value === "budget") button.hidden = !about.budget;
  }
  if (about.budget) {
    Object.assign(state, { copies: about.budget.copies, goOn: about.budget.more });
    state.filter.verdict = "budget";
    showFilter();
  }
  $("run").textContent = about.name;
  document.title = `${about.name} · josrc review`;
  for (const { name, flagged } of about.classes) {
    $("given").append(new Option(`${name} (${number(flagged)})`, name));
  }
  $("state").value = state.filter.state;
  $("given").value = "";
  $("search").value = "";
  restart();
  const news = sessionStorage.getItem("news");
  sessionStorage.removeItem("news");
  if (news) tell(news);
  // Only now: a queue that is loaded twice would take cards away from under the first key.
  new IntersectionObserver(() => load(), { rootMargin: "800px" }).observe($("more"));
  $("grid").focus({ preventScroll: true });
  setInterval(() => { if (!document.hidden) poll(); }, POLL);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
}

begin().catch(() => {}); // the banner says what is wrong
