
// The map: points on one canvas, and on another above it what is marked or pointed at.
(() => {
  const { data, make, nameOf, whole } = report;
  const plane = data.map;
  if (!plane) return;
  const byId = (id) => document.getElementById(id);
  const numbers = (Kind, text) => new Kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const x = numbers(Uint16Array, plane.x), y = numbers(Uint16Array, plane.y);
  const row = numbers(Uint32Array, plane.row), confidence = numbers(Uint8Array, plane.confidence);
  const groups = { verdict: numbers(Uint8Array, plane.verdict), given: numbers(Int32Array, plane.given) };
  const suggested = numbers(Int32Array, plane.suggested);
  const samples = new Map(data.samples.map((sample) => [sample.number, sample]));
  const count = x.length;
  // Names come as how much of the one before they begin with, and the rest; or they are the rows.
  const ids = plane.ids === "rows" ? Array.from(row, String) : plane.ids;
  if (plane.ids !== "rows") ids?.forEach(([same, rest], i) => { ids[i] = (ids[i - 1] ?? "").slice(0, same) + rest; });

  const STEPS = 65535, EDGE = 14, NEAR = 14, AROUND = 30, CLICK = 5, KEYS = 200;
  const ROUND = 8000; // of more points than these nobody sees whether they are round
  // For a few classes, colours that are easily told apart on light and on dark paper.
  const TEN = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7",
    "#9c755f", "#8f8a88"];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const base = byId("points"), top = byId("marks"), hovered = byId("hovered");
  const inside = new Uint8Array(count); // which points are marked
  let side = 0;         // of the map, in CSS pixels
  let colours = "verdict";
  let chosen = null;    // the one group of the legend that is lit
  let outline = null;   // what was drawn around the marked points, in parts of the side
  let drawing = null;   // and what is being drawn, in pixels
  let current = -1;     // the point that is pointed at

  const left = new Float32Array(count), up = new Float32Array(count); // where points are, in pixels
  const lit = (i) => chosen === null || groups[colours][i] === chosen;
  const bright = (i) => lit(i) && (outline === null || inside[i] === 1);

  // --- drawing -----------------------------------------------------------------------------

  function colourOf(group) {
    if (colours === "given") {
      if (data.classes.length <= TEN.length) return TEN[group];
      // Steps of the golden angle: however many classes there are, neighbours differ.
      return `hsl(${(group * 137.508 + 210) % 360} 60% ${(dark.matches ? 68 : 40) + (group % 3) * 6}%)`;
    }
    const name = { clean: "--clean", mislabelled: "--mislabelled" }[data.verdicts[group]] ?? "--out";
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // Points of each group; clean ones first, so that the others lie above them.
  const byGroup = {};
  for (const [kind, values] of Object.entries(groups)) {
    const found = new Map();
    values.forEach((group, i) => { if (found.has(group)) found.get(group).push(i); else found.set(group, [i]); });
    byGroup[kind] = new Map([...found].sort(([a], [b]) => a - b));
  }

  function fit(canvas) {
    const dense = Math.min(2, devicePixelRatio || 1), pixels = Math.round(side * dense);
    if (canvas.width !== pixels) canvas.width = canvas.height = pixels;
    const pen = canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, side, side);
    return pen;
  }

  function place() {
    side = base.clientWidth;
    const scale = (side - 2 * EDGE) / STEPS;
    for (let i = 0; i < count; i += 1) {
      left[i] = EDGE + x[i] * scale;
      up[i] = EDGE + y[i] * scale;
    }
  }

  function paint() {
    if (!side) return;
    const pen = fit(base), size = Math.max(2, 7.2 - 1.1 * Math.log10(count + 1)) * Math.min(1, side / 500 + 0.3);
    for (const faded of [true, false]) {
      for (const [group, members] of byGroup[colours]) {
        const quiet = colours === "verdict" && data.verdicts[group] === "clean";
        pen.fillStyle = colourOf(group);
        pen.globalAlpha = faded ? 0.13 : quiet ? 0.5 : 0.85;
        for (const i of members) {
          if (bright(i) === faded) continue;
          if (count > ROUND) pen.fillRect(left[i] - size / 2, up[i] - size / 2, size, size);
          else { pen.beginPath(); pen.arc(left[i], up[i], size / 2 + 0.4, 0, 7); pen.fill(); }
        }
      }
    }
    overlay();
  }

  function overlay() {
    const pen = fit(top), style = getComputedStyle(document.documentElement);
    pen.strokeStyle = pen.fillStyle = style.getPropertyValue("--ink").trim();
    const line = drawing ?? outline?.map(([a, b]) => [a * side, b * side]);
    if (line) {
      pen.beginPath();
      line.forEach((corner, k) => (k ? pen.lineTo(...corner) : pen.moveTo(...corner)));
      pen.closePath();
      pen.globalAlpha = 0.06; pen.fill();
      pen.globalAlpha = 0.8; pen.setLineDash([4, 3]); pen.stroke();
    }
    if (current >= 0) {
      pen.globalAlpha = 1; pen.setLineDash([]); pen.lineWidth = 2;
      pen.beginPath(); pen.arc(left[current], up[current], 6.5, 0, 7); pen.stroke();
    }
  }

  // --- one point ---------------------------------------------------------------------------

  function nearest(a, b, reach) {
    let best = -1, gap = reach * reach;
    for (let i = 0; i < count; i += 1) {
      const away = (left[i] - a) ** 2 + (up[i] - b) ** 2;
      if (away < gap && bright(i)) { gap = away; best = i; }
    }
    return best;
  }

  function point(i) {
    if (i === current) return;
    current = i;
    overlay();
    hovered.hidden = i < 0;
    if (i < 0) return;
    const sample = samples.get(row[i]);
    const about = { given: groups.given[i], suggested: suggested[i], verdict: groups.verdict[i] };
    const name = sample?.id ?? ids?.[i] ?? `row ${whole(row[i] + 1)}`;
    hovered.replaceChildren(
      ...(sample?.image ? [make("span", "frame", report.picture(sample))] : []),
      report.change(about),
      make("span", "score", make("i", `dot fill-${data.verdicts[about.verdict]}`),
        `${report.spoken(about.verdict)}, ${report.percent(confidence[i] / 100)}`),
      make("bdi", "name", name));
    // Beside the point, on the side that has more room.
    const box = hovered.getBoundingClientRect();
    const edge = left[i] > side / 2 ? left[i] - box.width - 14 : left[i] + 14;
    hovered.style.left = `${Math.max(0, Math.min(side - box.width, edge))}px`;
    hovered.style.top = `${Math.max(0, Math.min(side - box.height, up[i] - box.height / 2))}px`;
  }

  // The next point in a direction: near, and rather straight ahead than aside.
  function step(right, down) {
    if (current < 0) { point(nearest(side / 2, side / 2, 2 * side)); return; }
    let best = -1, least = Infinity;
    for (let i = 0; i < count; i += 1) {
      const a = left[i] - left[current], b = up[i] - up[current];
      const ahead = a * right + b * down, aside = Math.abs(a * down) + Math.abs(b * right);
      if (ahead < 2 || aside > 2 * ahead || !bright(i)) continue;
      if (ahead + 2 * aside < least) { least = ahead + 2 * aside; best = i; }
    }
    if (best >= 0) point(best);
  }

  // --- many points -------------------------------------------------------------------------

  function encloses(line, across, below) {
    let odd = false;
    for (let i = 0, j = line.length - 1; i < line.length; j = i, i += 1) {
      const [a, b] = line[i], [c, d] = line[j];
      if (b > below !== d > below && across < ((c - a) * (below - b)) / (d - b) + a) odd = !odd;
    }
    return odd;
  }

  function mark(line) {
    const rows = [], counts = data.verdicts.map(() => 0);
    for (let i = 0; i < count; i += 1) {
      inside[i] = lit(i) && encloses(line, left[i], up[i]) ? 1 : 0;
      if (inside[i]) { rows.push(row[i]); counts[groups.verdict[i]] += 1; }
    }
    if (!rows.length) { clear(); return; }
    outline = line.map(([a, b]) => [a / side, b / side]);
    const held = rows.filter((number) => samples.has(number)).length;
    const parts = counts.map((n, verdict) => n && `${whole(n)} ${report.spoken(verdict)}`).filter(Boolean);
    byId("marked").textContent = `${whole(rows.length)} marked: ${parts.join(", ")}. `
      + (held ? `The gallery contains ${whole(held)} of them.` : "The gallery contains none of them.");
    byId("map-images").hidden = !held;
    byId("map-reset").hidden = false;
    report.set({ view: "all", given: -1, suggested: -1, words: "", region: new Set(rows) });
    paint();
  }

  function markAround(i) {
    mark(Array.from({ length: 40 }, (_, k) => {
      const turn = (k / 40) * 2 * Math.PI;
      return [left[i] + AROUND * Math.cos(turn), up[i] + AROUND * Math.sin(turn)];
    }));
  }

  function clear() {
    if (report.state.region !== null) { report.set({ region: null }); return; } // and it calls back
    outline = null;
    for (const id of ["map-images", "map-reset"]) byId(id).hidden = true;
    byId("marked").textContent = "";
    paint();
  }

  // --- the legend --------------------------------------------------------------------------

  function legend() {
    const entries = [...byGroup[colours]];
    const title = (group) => (colours === "given" ? nameOf(group) : report.spoken(group));
    const list = entries.slice(0, KEYS).map(([group, members]) => {
      const dot = make("i", "dot");
      dot.style.background = colourOf(group);
      const button = make("button", "row", dot, make("bdi", "name", title(group)),
        make("span", "number", whole(members.length)));
      button.setAttribute("aria-pressed", String(chosen === group));
      button.addEventListener("click", () => choose(chosen === group ? null : group));
      return make("li", "", button);
    });
    if (entries.length > KEYS) list.push(make("li", "note", `and ${whole(entries.length - KEYS)} more`));
    byId("colours").replaceChildren(...list);
    for (const button of document.querySelectorAll("[data-colours]")) {
      button.setAttribute("aria-pressed", String(button.dataset.colours === colours));
    }
  }

  function choose(group) {
    chosen = group;
    const place = [...document.querySelectorAll("#colours button")].indexOf(document.activeElement);
    legend();
    document.querySelectorAll("#colours button")[place]?.focus();
    point(-1);
    clear();
    paint();
  }

  // --- what a person does ------------------------------------------------------------------

  function spot(event) {
    const box = top.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
  top.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    top.setPointerCapture(event.pointerId);
    drawing = [spot(event)];
  });
  top.addEventListener("pointermove", (event) => {
    const here = spot(event);
    if (drawing === null) { point(nearest(...here, NEAR)); return; }
    const [a, b] = drawing.at(-1);
    if (Math.hypot(here[0] - a, here[1] - b) < (drawing.length > 1 ? 2 : CLICK)) return;
    drawing.push(here);
    point(-1);
    overlay();
  });
  top.addEventListener("pointerup", (event) => {
    const line = drawing, here = spot(event);
    drawing = null;
    if (line === null) return;
    if (line.length > 2) { mark(line); return; }
    const found = nearest(...here, AROUND);
    if (found < 0) clear();
    else markAround(found);
  });
  top.addEventListener("pointercancel", () => { drawing = null; overlay(); });
  top.addEventListener("pointerleave", () => { if (drawing === null) point(-1); });
  top.addEventListener("blur", () => point(-1));
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  top.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) step(...steps[event.key]);
    else if (event.key === "Enter" && current >= 0) markAround(current);
    else if (event.key === "Escape") { point(-1); clear(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  byId("map-reset").addEventListener("click", clear);
  for (const button of document.querySelectorAll("[data-colours]")) {
    button.addEventListener("click", () => { colours = button.dataset.colours; choose(null); });
  }
  // The gallery shows all again: so does the map.
  document.addEventListener("region", () => { if (report.state.region === null) clear(); });
  dark.addEventListener("change", () => { legend(); paint(); });
  byId("map").hidden = false;
  legend();
  new ResizeObserver(() => { point(-1); place(); paint(); }).observe(base);
})();
