// The two sides of the pool browser: a selector on the problem shown, its map, its picks and the text of a response.

// Where the responses lie on the map, and what is said of one.

const W = 400, H = 300;
const circleAt = (node, [x, y]) => { node.setAttribute("cx", x); node.setAttribute("cy", y); };
const radius = (n) => (n <= 80 ? 7 : n <= 300 ? 5.5 : n <= 1200 ? 4 : 2.6);

// Principal components on one scale; responses that coincide open like a flower, so that repeats can be counted.
function spread(problem) {
  const { x, y } = problem.map, petals = flower(problem), pad = 14;
  const places = (scale, [dx, dy]) =>
    x.map((value, at) => [value * scale + dx + petals[at][0], dy - y[at] * scale + petals[at][1]]);
  const reach = (values) => Math.max(1, Math.max(...values) - Math.min(...values));
  let scale = Math.min((W - 2 * pad) / reach(x), (H - 2 * pad) / reach(y)), middle = [0, 0];
  for (let round = 0; round < 4; round += 1) {  // petals do not shrink with the map, so that it takes a few rounds to fit
    const [across, down] = [0, 1].map((axis) => places(scale, [0, 0]).map((at) => at[axis]));
    middle = [[W, across], [H, down]].map(([size, values]) => (size - Math.max(...values) - Math.min(...values)) / 2);
    scale *= Math.min(1, (W - 2 * pad) / reach(across), (H - 2 * pad) / reach(down));
  }
  return places(scale, middle).map(([left, top]) => [clamp(left, 8, W - 8), clamp(top, 8, H - 8)]);
}

// How far each response is moved aside from those before it at the same place, or within 6 thousandths of the map.
function flower(problem) {
  const r = radius(problem.n), near = 6, cells = new Map();
  return problem.map.x.map((x, at) => {
    const y = problem.map.y[at], centre = centreNear(cells, x, y, near);
    const reach = Math.min(1.5 * r * Math.sqrt(centre.petals), 70), turn = centre.petals * 2.39996;
    centre.petals += 1;
    return [reach * Math.cos(turn), reach * Math.sin(turn)];
  });
}

// The flower that a place belongs to; a new one where none is near. `cells`: their centres by squares of that size.
function centreNear(cells, x, y, near) {
  const [column, row] = [Math.floor(x / near), Math.floor(y / near)];
  for (const cell of [-1, 0, 1].flatMap((dx) => [-1, 0, 1].map((dy) => `${column + dx} ${row + dy}`))) {
    const found = (cells.get(cell) || []).find((centre) => Math.hypot(centre.x - x, centre.y - y) <= near);
    if (found) return found;
  }
  const centre = { x, y, petals: 0 }, cell = `${column} ${row}`;
  cells.set(cell, [...(cells.get(cell) || []), centre]);
  return centre;
}

function point(problem, index, cluster, r, at) {
  return svg("g", {
    class: `pt s${cluster}`, "data-index": index, role: "option", tabindex: -1, "aria-selected": "false",
    transform: move(...at), "aria-label": `response ${index}, ${answerText(problem, index)}`,
  }, svg("path", { class: "shape", d: shape(SHAPES[cluster], r) }), ringFor(problem, index, r));
}

function ringFor(problem, index, r) {
  const verdict = problem.verdict[index];
  return verdict === "w" ? null : svg("circle", { class: verdict === "e" ? "verdict error" : "verdict", r: r * 1.3 });
}

const answerOf = (problem, index) =>
  (problem.cluster[index] === OTHER ? `text ${problem.text[index]}` : problem.cluster[index]);
const distinct = (problem, kinds) => count(kinds.size - (kinds.has(NONE) ? 1 : 0));

function answerText(problem, index) {
  const cluster = problem.cluster[index];
  if (cluster === NONE) return "no answer";
  if (cluster === OTHER) return problem.coloured_by === "text" ? "a rarer text" : "a rarer answer";
  if (problem.coloured_by === "text") return `text no. ${cluster + 1} by frequency`;
  return `answer ${begin(problem.answers[cluster][0])}`;
}

function describe(panel, index) {
  const rank = panel.rank.get(index), pick = rank ? `pick ${count(rank)}` : panel.picks.sets ? null : "not picked";
  const parts = [pick, `response ${index}`, answerText(panel.problem, index)];
  if (byId("reveal").checked) parts.push({ c: "correct", w: "wrong", e: "verifier error" }[panel.problem.verdict[index]]);
  return parts.filter(Boolean).join(" · ");
}

function solvedAt(panel) {
  if (!panel.problem.c) return "no response is correct";
  const correct = (index) => panel.problem.verdict[index] === "c";
  if (panel.picks.sets) return panel.picked.some(correct) ? "holds a correct one" : "holds no correct one";
  const first = panel.order.findIndex(correct) + 1;
  const others = panel.picks.ranks.length > 1 ? ` (all trials: ${panel.picks.ranks.join(", ")})` : "";
  return first ? `first correct at pick ${first}${others}` : `no correct one among the picks shown${others}`;
}

function curveLabel(picks, values) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return picks.figure;
  return `${picks.figure} of ${values.length} picks, from ${known[0]} to ${known[known.length - 1]}`;
}

// One side.

class Panel {
  constructor(side, chosen) {
    this.side = side;
    this.select = el("select", { "aria-label": `Selector on the ${side}` },
      ...data.selectors.map((selector, place) => el("option", { value: place, selected: place === chosen }, selector.name)));
    this.status = el("p", { class: "status" });
    const label = `Responses on the map, ${side}`;
    this.map = svg("svg", { class: "map", viewBox: `0 0 ${W} ${H}`, role: "listbox", "aria-label": label,
      "aria-multiselectable": true });
    this.title = el("p");
    this.chart = el("div");
    this.head = el("p", { class: "head", dir: "auto" });
    this.text = el("pre", { tabindex: 0, dir: "auto", "aria-label": `Text of the response, ${side}` });
    this.cut = el("p", { class: "note" });
    this.root = el("div", { class: "panel", role: "group", "aria-label": `${side} selector` },
      this.select, this.status, this.map,
      el("div", { class: "novelty" }, this.title, this.chart),
      el("div", { class: "response" }, this.head, this.text, this.cut));
    this.listen();
  }

  get chosen() { return Number(this.select.value); }

  listen() {
    this.select.addEventListener("change", () => { reorder(); if (problems[state.place].view) { this.load(); setSteps(); } });
    this.map.addEventListener("pointerover", (event) => look(this, this.indexOf(event.target)));
    this.map.addEventListener("pointerleave", () => look(this, this.indexOf(document.activeElement)));
    // Not on the map itself: an SVG element that listens for focus is a stop of the tab key in Chromium.
    this.root.addEventListener("focusin", (event) => look(this, this.indexOf(event.target)));
    this.root.addEventListener("focusout", () => look(this, null));
    this.map.addEventListener("click", (event) => { const at = this.indexOf(event.target); if (at !== null) this.focus(at); });
    this.map.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["pointerdown", "pointermove"]) this.chart.addEventListener(name, (event) => this.scrub(event));
    new ResizeObserver(() => this.drawNovelty()).observe(this.chart);
  }

  indexOf(node) {
    const point = node instanceof Element && this.map.contains(node) ? node.closest(".pt") : null;
    return point ? Number(point.dataset.index) : null;
  }

  // What this panel's selector does on the problem: its order, or its set for each budget.
  load() {
    this.problem = problems[state.place].view;
    this.picks = this.problem.picks[this.chosen];
    this.order = this.picks.order || [];
    this.rank = new Map(this.order.map((index, place) => [index, place + 1]));
    this.length = this.picks.sets ? Math.max(0, ...Object.keys(this.picks.sets).map(Number)) : this.order.length;
    this.at = 0;
    this.picked = [];
    this.drawMap();
    this.drawNovelty();
  }

  drawMap() {
    const places = spread(this.problem), r = radius(this.problem.n);
    this.trail = svg("path", { class: "trail", "aria-hidden": true });
    this.now = svg("circle", { class: "ring hidden", r: r * 1.9, "aria-hidden": true });
    this.looked = svg("circle", { class: "looked hidden", r: r * 1.9, "aria-hidden": true });
    this.places = places;
    this.points = this.problem.cluster.map((cluster, index) => point(this.problem, index, cluster, r, places[index]));
    this.map.replaceChildren(...this.points, this.trail, this.now, this.looked);
    this.map.classList.toggle("many", this.problem.n > 300);
    this.reachable = this.points[0];
    this.reach(0);
  }

  reach(index) {
    this.reachable.setAttribute("tabindex", -1);
    this.reachable = this.points[index];
    this.reachable.setAttribute("tabindex", 0);
  }

  focus(index) {
    this.reach(index);
    this.points[index].focus({ preventScroll: true });
  }

  key(event) {
    const from = this.indexOf(event.target);
    const turn = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (turn) {
      event.preventDefault();
      this.focus((from + turn + this.points.length) % this.points.length);
    } else if (stepKey(event) && this.current !== null) {
      this.focus(this.current);
    }
  }

  get current() { return this.picked.length ? this.picked[this.picked.length - 1] : null; }

  // The picks after so many steps; only what changes is touched, so that thousands of points stay quick.
  show(step) {
    const picked = this.picks.sets ? setAt(this.picks.sets, step) : this.order.slice(0, step);
    const before = new Set(this.picked), after = new Set(picked);
    for (const index of before) if (!after.has(index)) this.mark(index, false);
    for (const index of after) if (!before.has(index)) this.mark(index, true);
    this.picked = picked;
    this.drawHead();
    this.drawStatus();
    this.drawStep(picked.length);
    if (!this.map.contains(document.activeElement) && this.current !== null) this.reach(this.current);
    this.drawText(this.watched === undefined ? null : this.watched);
  }

  mark(index, picked) {
    this.points[index].classList.toggle("picked", picked);
    this.points[index].setAttribute("aria-selected", picked);
  }

  drawHead() {
    const last = this.picks.sets ? [] : this.picked.slice(-4).map((index) => this.places[index]);
    this.trail.setAttribute("d", line(last));
    this.now.classList.toggle("hidden", !last.length);
    if (last.length) circleAt(this.now, last[last.length - 1]);
  }

  drawStatus() {
    const problem = this.problem, made = this.picked.length;
    const kinds = new Set(this.picked.map((index) => answerOf(problem, index)));
    const noun = problem.coloured_by === "text" ? "text" : "answer";
    const set = made ? `set for budget ${made}` : "no set yet";
    const parts = [this.picks.sets ? set : `pick ${count(made)} of ${count(this.length)}`];
    if (made) parts.push(`${distinct(problem, kinds)} distinct ${noun}${kinds.size === 1 ? "" : "s"} so far`);
    if (byId("reveal").checked) parts.push(solvedAt(this));
    this.status.textContent = parts.join(" · ");
  }

  drawNovelty() {
    if (!this.problem) return;
    const values = this.picks.values;
    const about = values ? `${this.picks.figure}, pick by pick` : "a subset method has no order: it chooses a set for each budget";
    this.title.textContent = [about, this.picks.note].filter(Boolean).join(" · ");
    this.chart.replaceChildren();
    this.marks = [];
    if (values && values.length) this.drawChart(values);
    if (this.picked) this.drawStep(this.picked.length, true);
  }

  drawChart(values) {
    const box = this.chartBox(values), { width, height, y } = box;
    this.x = box.x;
    this.playhead = svg("line", { class: "cursor hidden", y1: 4, y2: height - 18 });
    const known = values.map((value, place) => [this.x(place), value]).filter(([, value]) => value !== null);
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": curveLabel(this.picks, values) },
      chartGrid(box, values.length), this.playhead,
      svg("path", { class: "line", d: line(known.map(([x, value]) => [x, y(value)])) }));
    values.forEach((value, place) => chart.append(...this.chartMark(value, place, box)));
    this.chart.append(chart);
    this.drawn = 0;
  }

  chartBox(values) {
    const width = Math.max(200, this.chart.clientWidth), height = 118, n = values.length;
    const top = Math.max(1e-12, ...values.filter((value) => value !== null));
    return {
      width, height, top, r: n > 200 ? 1.8 : n > 90 ? 2.8 : 4,
      x: (place) => 40 + (width - 52) * (n > 1 ? place / (n - 1) : 0.5),
      y: (value) => height - 22 - (height - 36) * value / top,
    };
  }

  // A pick as the map shows it, at its novelty, and a tick below it where it is correct. The first may have no novelty.
  chartMark(value, place, { height, y, r }) {
    const index = this.order[place], cluster = this.problem.cluster[index], x = this.x(place);
    const mark = svg("g", { class: value === null ? "hidden" : `pt s${cluster}`, transform: move(x, y(value || 0)) },
      svg("path", { class: "shape", d: shape(SHAPES[cluster], r) }));
    this.marks.push(mark);
    const correct = this.problem.verdict[index] === "c";
    return correct ? [mark, svg("line", { class: "verdict", x1: x, x2: x, y1: height - 20, y2: height - 15 })] : [mark];
  }

  drawStep(made) {
    if (!this.marks || !this.marks.length) return;
    for (let place = Math.min(this.drawn, made); place < Math.max(this.drawn, made); place += 1) {
      this.marks[place].classList.toggle("picked", place < made);
    }
    this.drawn = made;
    this.playhead.classList.toggle("hidden", !made);
    if (made) for (const end of ["x1", "x2"]) this.playhead.setAttribute(end, this.x(made - 1));
  }

  scrub(event) {
    if (!(event.buttons & 1) || !this.marks.length) return;
    const box = this.chart.getBoundingClientRect(), first = this.x(0), last = this.x(this.marks.length - 1);
    const share = (event.clientX - box.left - first) / Math.max(1, last - first);
    pause();
    go(1 + Math.round(clamp(share, 0, 1) * (this.marks.length - 1)));
  }

  // The response looked at, else the pick just made.
  drawText(index) {
    this.watched = index === null ? undefined : index;
    const at = index === null ? this.current : index;
    this.looked.classList.toggle("hidden", index === null);
    if (index !== null) circleAt(this.looked, this.places[index]);
    const text = at === null ? "" : this.problem.texts[this.problem.text[at]];
    this.head.textContent = at === null ? "Nothing picked yet" : describe(this, at);
    if (this.text.textContent !== begin(text)) this.text.textContent = begin(text);
    this.cut.textContent = Array.isArray(text) ?
      `The first ${count([...text[0]].length)} of ${count(text[1])} characters.` : "";
  }
}

function chartGrid({ width, height, x, y, top }, n) {
  const rule = (value) => svg("line", { x1: 40, x2: width - 12, y1: y(value), y2: y(value) });
  return svg("g", { class: "grid", "aria-hidden": "true" }, rule(0), rule(top),
    words(34, y(top) + 4, "end", String(Number(top.toPrecision(2)))), words(34, y(0) + 4, "end", "0"),
    words(x(0), height - 3, "middle", "1"), n > 1 ? words(x(n - 1), height - 3, "end", count(n)) : null);
}

function setAt(sets, step) {
  const fitting = Object.keys(sets).map(Number).filter((k) => k <= step);
  return fitting.length ? sets[String(Math.max(...fitting))] : [];
}

const panels = [];

function look(panel, index) {
  for (const other of panels) other.drawText(index === null && other !== panel ? null : index);
}
