"use strict";
// Names, paths and reasons are written as text, never as markup: `make` is the only way in.
// What it returns is for the map, which comes in a file of its own.
const report = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { samples, classes, verdicts } = data;
  const byId = (id) => document.getElementById(id);
  const BATCH = 120;

  function make(tag, name, ...children) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.append(...children);
    return node;
  }

  function draw(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  const nameOf = (number) => classes[number] ?? "unknown";
  function percent(share) {
    if (share > 0 && share < 0.005) return "< 1 %";
    return share >= 0.995 && share < 1 ? "> 99 %" : `${Math.round(100 * share)} %`;
  }
  const spoken = (verdict) => verdicts[verdict].replaceAll("_", " ");
  const whole = (number) => number.toLocaleString("en");

  // --- the samples -------------------------------------------------------------------------

  for (const sample of samples) {
    sample.label = sample.path || sample.id;
    // Of a path only what tells images apart: a word would be found in the folder of all of them.
    sample.place = (sample.path || "").toLowerCase();
    sample.words = [sample.id, nameOf(sample.given),
      sample.suggested < 0 ? "" : nameOf(sample.suggested)].join("\n").toLowerCase();
  }

  const views = {
    mislabelled: (s) => verdicts[s.verdict] === "mislabelled",
    out_of_distribution: (s) => verdicts[s.verdict] === "out_of_distribution",
    borderline: (s) => s.confidence > 0 && s.confidence < data.borderline,
    all: () => true,
  };
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const suspicious = (a, b) => a.score - b.score || a.number - b.number;
  const orders = {
    suspicious,
    doubtful: (a, b) => a.confidence - b.confidence,
    given: (a, b) => compare(nameOf(a.given), nameOf(b.given)) || suspicious(a, b),
    name: (a, b) => compare(a.label, b.label),
  };
  // `region` is a set of samples' numbers that the map has marked; none: whatever lies anywhere.
  const state = { view: "mislabelled", given: -1, suggested: -1, words: "", sort: "suspicious", region: null };
  let found = [];   // what passes the filters, in order
  let built = 0;    // how many of them have a card
  let current = 0;  // the one that the keys act on
  let enlarged = 0; // and the one that was last seen enlarged
  let cards = [];

  // --- the gallery -------------------------------------------------------------------------

  function picture(sample) {
    if (!sample.image) return make("span", "missing", "no image");
    const image = make("img", sample.pixels ? "pixels" : "");
    image.alt = "";
    image.src = `data:image/webp;base64,${sample.image}`;
    image.addEventListener("error", () => image.replaceWith(make("span", "missing", "no image")));
    return image;
  }

  // From the given label to what the image seems to be.
  function change(sample) {
    const seems = sample.suggested >= 0 ? make("bdi", "", nameOf(sample.suggested))
      : verdicts[sample.verdict] === "clean" ? "probably right" : "no class";
    return make("span", "change", make("bdi", "from", nameOf(sample.given)), " ",
      make("span", "to", make("span", "arrow", "→"), " ", seems));
  }

  function card(sample, place) {
    const button = make("button", "card", make("span", "frame", picture(sample)), change(sample),
      make("span", "score", make("i", `dot fill-${verdicts[sample.verdict]}`),
        percent(sample.confidence)));
    if (sample.decided) button.append(make("span", `decided ${sample.decided[0]}`, sample.decided[1]));
    button.title = `${sample.label}\n${sample.reason}`;
    button.tabIndex = place === current ? 0 : -1;
    button.addEventListener("click", () => { mark(place); enlarge(); });
    button.addEventListener("focus", () => mark(place));
    return button;
  }

  function more() {
    const grid = byId("grid");
    const until = Math.min(found.length, built + BATCH);
    for (; built < until; built += 1) {
      const sample = found[built];
      if (state.sort === "given" && found[built - 1]?.given !== sample.given) {
        grid.append(make("li", "heading", make("bdi", "", nameOf(sample.given))));
      }
      const made = card(sample, built);
      cards.push(made);
      grid.append(make("li", "", made));
    }
  }

  function show() {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    found = samples.filter((s) => views[state.view](s)
      && (state.region === null || state.region.has(s.number))
      && (state.given < 0 || s.given === state.given)
      && (state.suggested < 0 || s.suggested === state.suggested)
      && words.every((word) => s.words.includes(word) || (/[\\/]/.test(word) && s.place.includes(word))));
    found.sort(orders[state.sort]);
    built = 0; current = 0; cards = [];
    byId("grid").replaceChildren();
    more();
    byId("none").hidden = found.length > 0;
    const total = data.totals[state.view];
    const held = samples.filter(views[state.view]).length;
    const rest = total > held ? ` The report holds ${whole(held)} of ${whole(total)} such images.` : "";
    const where = state.region ? " marked on the map" : "";
    byId("count").textContent = `${whole(found.length)} ${found.length === 1 ? "image" : "images"}${where}.${rest}`;
    byId("unmark").hidden = state.region === null;
    for (const tab of document.querySelectorAll("[data-view]")) {
      tab.setAttribute("aria-selected", String(tab.dataset.view === state.view));
    }
    for (const key of ["given", "suggested", "sort"]) byId(key).value = String(state[key]);
    byId("search").value = state.words;
  }

  function set(changes) {
    // In the gallery of doubtful images the most doubtful come first.
    if (changes.view && changes.view !== state.view) {
      changes = { sort: changes.view === "borderline" ? "doubtful" : "suspicious", ...changes };
    }
    const region = state.region;
    Object.assign(state, changes);
    show();
    if (state.region !== region) document.dispatchEvent(new Event("region"));
  }

  function jump(changes) {
    const view = changes.suggested >= 0 ? "mislabelled" : "all";
    set({ view, words: "", suggested: -1, region: null, ...changes });
    byId("images").scrollIntoView();
    cards[0]?.focus({ preventScroll: true });
  }

  function mark(place) {
    if (cards[current]) cards[current].tabIndex = -1;
    current = place;
    if (cards[current]) cards[current].tabIndex = 0;
  }

  function go(place) {
    if (!found.length) return;
    place = Math.max(0, Math.min(found.length - 1, place));
    while (built <= place) more();
    mark(place);
    if (byId("viewer").open) fill();
    else cards[place].focus();
  }

  // The card in the next row that is nearest to the current one; rows may have headings between.
  function rowAway(step) {
    const here = cards[current].getBoundingClientRect();
    let row = null, best = current, gap = Infinity;
    for (let place = current + step; place >= 0 && place < found.length; place += step) {
      while (built <= place) more();
      const box = cards[place].getBoundingClientRect();
      if (Math.abs(box.top - here.top) < 4) continue;
      row ??= box.top;
      if (Math.abs(box.top - row) > 4) break;
      if (Math.abs(box.left - here.left) < gap) { gap = Math.abs(box.left - here.left); best = place; }
    }
    return best;
  }

  // --- one image, enlarged -----------------------------------------------------------------

  function answers(sample) {
    const parts = [["clean", "the label is right", sample.clean],
      ["mislabelled", "it belongs to another class", Math.max(0, 1 - sample.clean - sample.ood)],
      ["out_of_distribution", "it belongs to no class", sample.ood]];
    const bar = draw("svg", { width: "100%", height: 10, "aria-hidden": "true" });
    const list = make("ul", "answers");
    let x = 0;
    for (const [verdict, text, share] of parts) {
      bar.append(draw("rect", { class: `fill-${verdict}`, x: `${100 * x}%`, width: `${100 * share}%`, height: 10 }));
      x += share;
      list.append(make("li", "", make("i", `dot fill-${verdict}`), make("span", "", text),
        make("span", "number", percent(share))));
    }
    return [bar, list];
  }

  function fact(name, value, kind) {
    return make("div", "", make("dt", "", name), make("dd", kind, make("bdi", "", value)));
  }

  function fill() {
    enlarged = current;
    const sample = found[current];
    const facts = make("dl", "facts");
    if (sample.path) facts.append(fact("Path", sample.path, "path"));
    facts.append(fact("Sample", sample.id, "path"));
    if (sample.true !== undefined) facts.append(fact("True label", nameOf(sample.true)));
    const close = make("button", "quiet", "Close");
    const before = make("button", "quiet", "←"), after = make("button", "quiet", "→");
    close.addEventListener("click", () => byId("viewer").close());
    before.addEventListener("click", () => go(current - 1));
    after.addEventListener("click", () => go(current + 1));
    before.setAttribute("aria-label", "Previous image");
    after.setAttribute("aria-label", "Next image");
    const bar = make("div", "bar", make("span", "place", `${whole(current + 1)} of ${whole(found.length)}`),
      before, after, close);
    byId("viewer").replaceChildren(
      make("div", "frame large", picture(sample)),
      make("div", "about-image", bar,
        make("p", "verdict", make("i", `dot fill-${verdicts[sample.verdict]}`),
          `${spoken(sample.verdict)}, ${percent(sample.confidence)} certain`),
        make("h2", "", change(sample)), make("p", "reason", sample.reason),
        ...answers(sample), facts));
  }

  function enlarge() {
    if (!found.length) return;
    fill();
    byId("viewer").showModal();
  }

  // --- curves ------------------------------------------------------------------------------

  function ticks(low, high, count) {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw);
    const marks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k += 1) marks.push(k * step || 0);
    return marks;
  }

  function range({ span, lines, unit }) {
    const values = lines.flatMap((line) => line.values).filter((v) => v !== null);
    let low = Math.min(...values, ...(span ?? [])), high = Math.max(...values, ...(span ?? []));
    if (high - low < 1e-9) { low -= unit ? 1 : 0; high += 1; }
    const steps = ticks(low, high, 4), step = steps.length > 1 ? steps[1] - steps[0] : high - low;
    low = Math.floor(low / step + 1e-9) * step;
    high = Math.ceil(high / step - 1e-9) * step;
    return unit === "%" ? [Math.max(0, low), Math.min(100, high)] : [low, high];
  }

  const digits = (value) => Math.abs(value) < 10 && value % 1 ? value.toFixed(2) : whole(Math.round(value * 10) / 10);

  // Drawn as wide as its place is, so that its letters are as large as all others.
  function paint(svg, info, width) {
    const epochs = info.lines[0].values.length, last = epochs - 1, [low, high] = range(info);
    const height = 200, left = 44, right = 12, top = 8, bottom = 26, broad = width - left - right;
    const x = (epoch) => left + (last ? epoch / last : 0.5) * broad;
    const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - top - bottom);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    for (const mark of ticks(low, high, 4)) {
      svg.append(draw("line", { class: "rule", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }),
        draw("text", { class: "tick", x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, digits(mark)));
    }
    for (const epoch of new Set([0, Math.round(last / 2), last])) {
      svg.append(draw("text", { class: "tick", x: x(epoch), y: height - 6, "text-anchor": "middle" },
        String(epoch + 1)));
    }
    for (const line of info.lines) {
      let path = "", pen = "M";
      line.values.forEach((value, epoch) => {
        if (value !== null) path += `${pen}${x(epoch).toFixed(1)} ${y(value).toFixed(1)}`;
        if (value !== null && line.values[epoch - 1] == null && line.values[epoch + 1] == null) path += "h.01";
        pen = value === null ? "M" : "L";
      });
      svg.append(draw("path", { class: `line stroke-${line.colour}`, d: path }));
    }
    const pointer = draw("line", { class: "pointer", y1: top, y2: height - bottom, visibility: "hidden" });
    svg.append(pointer);
    return {
      nearest: (place) => Math.max(0, Math.min(last, Math.round(((place - left) / broad) * last))),
      point: (epoch) => {
        pointer.setAttribute("visibility", epoch === null ? "hidden" : "visible");
        pointer.setAttribute("x1", x(epoch ?? 0));
        pointer.setAttribute("x2", x(epoch ?? 0));
      },
    };
  }

  function chart(info) {
    const svg = draw("svg", { class: "chart", role: "img", "aria-label": info.title });
    const legend = make("div", "legend"), at = make("span", "at");
    const numbers = info.lines.map((line) => {
      const number = make("b", "");
      legend.append(make("span", "", make("i", `dot fill-${line.colour}`), `${line.name} `, number));
      return number;
    });
    const tell = (epoch) => {
      at.textContent = `epoch ${epoch + 1}`;
      info.lines.forEach(({ values }, place) => {
        const value = values[epoch];
        numbers[place].textContent = value === null ? "–" : digits(value) + (info.unit && ` ${info.unit}`);
      });
    };
    const last = info.lines[0].values.length - 1;
    let painted = paint(svg, info, 480);
    new ResizeObserver(() => { if (svg.clientWidth) painted = paint(svg, info, svg.clientWidth); }).observe(svg);
    svg.addEventListener("pointermove", (event) => {
      const epoch = painted.nearest(event.clientX - svg.getBoundingClientRect().left);
      painted.point(epoch);
      tell(epoch);
    });
    svg.addEventListener("pointerleave", () => { painted.point(null); tell(last); });
    tell(last);
    return make("figure", "", make("figcaption", "", make("h3", "", info.title), at), legend, svg);
  }

  // --- what a person does ------------------------------------------------------------------

  function options(select, key, every) {
    const counts = new Map();
    for (const sample of samples) if (sample[key] >= 0) counts.set(sample[key], (counts.get(sample[key]) ?? 0) + 1);
    const numbers = [...counts.keys()].sort((a, b) => compare(nameOf(a), nameOf(b)));
    select.replaceChildren(...[-1, ...numbers].map((number) => {
      const option = make("option", "", number < 0 ? every : `${nameOf(number)} (${whole(counts.get(number))})`);
      option.value = String(number);
      return option;
    }));
    select.addEventListener("change", () => set({ [key]: Number(select.value) }));
  }

  const moves = {
    ArrowRight: () => current + 1, j: () => current + 1,
    ArrowLeft: () => current - 1, k: () => current - 1,
    ArrowDown: () => rowAway(1), ArrowUp: () => rowAway(-1),
    Home: () => 0, End: () => found.length - 1,
  };

  function pressed(event) {
    const viewer = byId("viewer"), typing = event.target.closest?.("input, select");
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    if (typing) {
      if (event.key === "Escape" && typing.id === "search") { set({ words: "" }); typing.blur(); }
      if (event.key === "Enter" && typing.id === "search") go(0);
      return;
    }
    if (event.key === "?") byId("help").showModal();
    else if (event.key === "/" && !viewer.open) byId("search").focus();
    else if ("1234".includes(event.key) && !viewer.open) set({ view: Object.keys(views)[event.key - 1] });
    else if (event.key === "Enter" && viewer.open && !event.target.closest("button")) viewer.close();
    else if (event.key === "Enter" && event.target === document.body && found.length) go(current);
    else if (event.key in moves && found.length) {
      // Up and down scroll the page until a card has the focus; the others go to the cards at once.
      const inside = viewer.open || event.target.closest(".card");
      if (!inside && !["ArrowRight", "ArrowLeft", "j", "k"].includes(event.key)) return;
      go(inside ? moves[event.key]() : current);
    } else return;
    event.preventDefault();
  }

  for (const tab of document.querySelectorAll("[data-view]")) {
    tab.querySelector("span").textContent = whole(data.totals[tab.dataset.view] ?? samples.length);
    tab.addEventListener("click", () => set({ view: tab.dataset.view }));
  }
  for (const row of document.querySelectorAll("button[data-given]")) {
    row.addEventListener("click", () => jump({
      given: Number(row.dataset.given), suggested: Number(row.dataset.suggested ?? -1) }));
  }
  options(byId("given"), "given", "all labels");
  options(byId("suggested"), "suggested", "all labels");
  byId("sort").addEventListener("change", () => set({ sort: byId("sort").value }));
  byId("search").addEventListener("input", () => set({ words: byId("search").value }));
  byId("reset").addEventListener("click", () => set({ given: -1, suggested: -1, words: "", view: "all", region: null }));
  byId("unmark").addEventListener("click", () => set({ region: null }));
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("every-class")?.addEventListener("click", (event) => {
    for (const row of document.querySelectorAll(".beyond")) row.classList.remove("beyond");
    event.target.remove();
  });
  // A browser gives the focus back to the card it came from; it belongs to the last one seen.
  byId("viewer").addEventListener("close", () => go(enlarged));
  document.addEventListener("keydown", pressed);
  new IntersectionObserver((seen) => { if (seen[0].isIntersecting) more(); }, { rootMargin: "1200px" })
    .observe(byId("none").parentElement.appendChild(make("div", "end")));

  byId("charts").append(...data.charts.map(chart));
  byId("training").hidden = data.charts.length === 0;
  document.querySelector(".tools").hidden = false;
  const first = Object.keys(views).find((view) => data.totals[view]) ?? "all";
  set({ view: first });
  return { data, state, make, picture, change, nameOf, spoken, percent, whole, set };
})();
