"use strict";
(() => {
  // Every text below may come from a model: it goes into the page as a text node or an attribute's value, never as markup.
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const OTHER = 7, NONE = 8;
  const byId = (id) => document.getElementById(id);

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : (100 * value).toFixed(digits));
  const count = (value) => value.toLocaleString("en-US");
  const begin = (text) => (Array.isArray(text) ? text[0] : text);
  const move = (x, y) => `translate(${x.toFixed(1)} ${y.toFixed(1)})`;
  const line = (points) => (points.length ? `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}` : "");
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  // Shapes tell clusters and curves apart where colours do not.
  const POLYGONS = {
    square: [[-0.86, -0.86], [0.86, -0.86], [0.86, 0.86], [-0.86, 0.86]],
    up: [[0, -1.15], [1.05, 0.75], [-1.05, 0.75]],
    diamond: [[0, -1.22], [1.05, 0], [0, 1.22], [-1.05, 0]],
    down: [[0, 1.15], [1.05, -0.75], [-1.05, -0.75]],
    plus: [[-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4],
      [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]],
    hexagon: [[-0.55, -0.98], [0.55, -0.98], [1.1, 0], [0.55, 0.98], [-0.55, 0.98], [-1.1, 0]],
  };
  const SHAPES = ["circle", "square", "up", "diamond", "down", "plus", "hexagon", "small", "circle"];

  function shape(kind, r) {
    if (POLYGONS[kind]) return `M${POLYGONS[kind].map(([x, y]) => `${(x * r).toFixed(2)},${(y * r).toFixed(2)}`).join("L")}Z`;
    const radius = kind === "small" ? 0.6 * r : r;
    return `M${-radius},0a${radius},${radius} 0 1,0 ${2 * radius},0a${radius},${radius} 0 1,0 ${-2 * radius},0Z`;
  }

  // Head and table.

  function showHead() {
    const about = data.about;
    byId("title").textContent = about.title.join("\u00a0· ");
    document.title = `${about.title.join(" · ")} · diversity-harness`;
    const errors = about.errors ? ` Verifier errors, counted as not correct: ${count(about.errors)}` +
      (about.flagged ? ", over 1 %: the verifier needs a look." : ".") : "";
    byId("about").textContent = `${count(about.problems)} problems, ${count(about.solvable)} of them with a correct response ` +
      `among ${count(about.n)}; ${about.trials} ${about.trials === 1 ? "ranking" : "rankings"} a problem and selector.${errors}`;
    const versions = Object.entries(about.versions).map(([name, version]) => `${name} ${version}`).join(", ");
    byId("made").textContent = `Pool ${about.pool}, seed ${about.seed}. Made with ${versions}.`;
  }

  function showTable() {
    const heads = ["selector", "samples-to-correct", "improvement", "against random", "win/tie/loss %"];
    heads.push(...data.budgets.map((k) => `pass@${k} %`));
    const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
    const scale = forestScale();
    const bodies = [true, false].map((wanted) =>
      el("tbody", {}, ...data.rows.filter((row) => row.reference === wanted).map((row) => tableRow(row, scale))));
    byId("table").append(el("thead", {}, head), ...bodies);
    const worth = { "few problems": " With so few problems an interval is a rough guide.",
      rough: " A few hard problems hold much of the calls: an interval is a rough guide." }[data.about.trust] || "";
    byId("table-note").textContent =
      "samples-to-correct: mean rank of the first correct response (n + 1 where there is none). improvement: random's mean / " +
      "the selector's, with 95 % interval over problems; above 1 = fewer verifier calls. win/tie/loss: chance of a lower, " +
      "equal, higher rank than a random order has. oracle, anti-oracle: who knows the verdicts and takes a correct response " +
      `first, or last.${worth}`;
  }

  function tableRow(row, scale) {
    const ends = row.interval ? ` [${row.interval.map((end) => number(end)).join(", ")}]` : "";
    const shares = row.shares ? row.shares.map((share) => percent(share, 0)).join("/") : row.reference ? "" : "–";
    return el("tr", {},
      el("th", { scope: "row" }, row.name),
      el("td", {}, number(row.samples_to_correct)),
      el("td", {}, number(row.improvement), el("span", { class: "interval" }, ends)),
      el("td", {}, row.reference ? null : forest(row, scale)),
      el("td", {}, shares),
      ...row.passed.map((share) => el("td", {}, percent(share))));
  }

  function forestScale() {
    const ends = data.rows.filter((row) => !row.reference && row.improvement)
      .flatMap((row) => [row.improvement, ...(row.interval || [])]).filter((value) => value > 0);
    const reach = Math.max(Math.log(1.25), ...ends.map((value) => Math.abs(Math.log(value))));
    return (value) => 75 + 68 * clamp(Math.log(Math.max(value, 1e-9)) / reach, -1, 1);
  }

  function forest(row, x) {
    if (!row.improvement) return "–";
    const drawn = svg("svg", { class: "forest", viewBox: "0 0 150 22", "aria-hidden": "true" },
      svg("line", { class: "one", x1: 75, x2: 75, y1: 1, y2: 21 }));
    if (row.interval) {
      const [low, high] = row.interval.map(x);
      drawn.append(svg("line", { class: "whisker", x1: low, x2: high, y1: 11, y2: 11 }));
    }
    drawn.append(svg("circle", { cx: x(row.improvement), cy: 11, r: 4.5 }));
    return drawn;
  }

  // Curves of pass@k over a log axis.

  const DASHES = [null, "7 4", "2 3", "9 3 2 3", "12 4", "4 4"];
  const shown = new Set();
  let cursor = null;

  function looks(curve, place) {
    if (curve.kind === "random") return { style: "random", dash: "5 3", mark: null };
    if (curve.kind === "oracle") return { style: "oracle", dash: "1 4", mark: null };
    return { style: `s${place % 7}`, dash: DASHES[Math.floor(place / 7) % DASHES.length], mark: SHAPES[place % 7] };
  }

  function showCurves() {
    data.curves.forEach((curve, place) => {
      curve.looks = looks(curve, place - 2);
      if (place < 8) shown.add(curve);
      const button = el("button", { type: "button", "aria-pressed": shown.has(curve) }, swatch(curve), curve.name);
      button.addEventListener("click", () => {
        if (!shown.delete(curve)) shown.add(curve);
        button.setAttribute("aria-pressed", shown.has(curve));
        drawCurves();
      });
      byId("legend").append(button);
    });
    const chart = byId("curves");
    chart.addEventListener("pointermove", (event) => readAt(budgetAt(event)));
    chart.addEventListener("pointerleave", () => readAt(null));
    new ResizeObserver(drawCurves).observe(chart);
    drawCurves();
  }

  function swatch(curve) {
    const { style, dash, mark } = curve.looks;
    return svg("svg", { class: style, width: 30, height: 14, viewBox: "0 0 30 14", "aria-hidden": "true" },
      svg("line", { class: "swatch", x1: 1, x2: 29, y1: 7, y2: 7, "stroke-width": 2.2, "stroke-dasharray": dash }),
      mark ? svg("path", { class: "dot", d: shape(mark, 4.2), transform: "translate(15 7)" }) : null);
  }

  function axes() {
    const width = Math.max(280, byId("curves").clientWidth), height = clamp(0.5 * width, 230, 430);
    const top = Math.max(2, ...data.curves.map((curve) => curve.k[curve.k.length - 1]));
    const left = 46, right = 14, up = 10, below = 38;
    return {
      width, height, left, right, up, below, top,
      x: (k) => left + (width - left - right) * Math.log(k) / Math.log(top),
      y: (share) => height - below - (height - up - below) * share,
    };
  }

  const ticks = (top) => {
    const found = [];
    for (let k = 1; k <= top; k *= top > 200 ? 4 : 2) found.push(k);
    return found;
  };

  function drawCurves() {
    const box = axes();
    const names = [...shown].map((curve) => curve.name).join(", ");
    const drawn = svg("svg", {
      viewBox: `0 0 ${box.width} ${box.height}`, role: "img", tabindex: 0,
      "aria-label": `pass@k against the budget k, log axis, for ${names || "no curve"}. Left and right arrow read values.`,
    }, grid(box));
    for (const curve of shown) drawn.append(curveGroup(curve, box));
    drawn.append(svg("line", { class: "cursor hidden", y1: box.up, y2: box.height - box.below }));
    drawn.addEventListener("keydown", readByKey);
    const focused = byId("curves").contains(document.activeElement);
    byId("curves").replaceChildren(drawn);
    if (focused) drawn.focus();
    readAt(cursor);
  }

  function grid(box) {
    const group = svg("g", { class: "grid", "aria-hidden": "true" });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      group.append(svg("line", { x1: box.left, x2: box.width - box.right, y1: box.y(share), y2: box.y(share) }),
        svg("text", { x: box.left - 8, y: box.y(share) + 4, "text-anchor": "end" }, `${100 * share}${share === 1 ? " %" : ""}`));
    }
    for (const k of ticks(box.top)) {
      group.append(svg("text", { x: box.x(k), y: box.height - box.below + 17, "text-anchor": "middle" }, count(k)));
    }
    const middle = (box.left + box.width - box.right) / 2;
    group.append(svg("text", { x: middle, y: box.height - 3, "text-anchor": "middle" }, "k, verifier calls a problem"));
    return group;
  }

  function curveGroup(curve, box) {
    const at = (shares) => curve.k.map((k, i) => [box.x(k), box.y(shares[i])]);
    const group = svg("g", { class: curve.looks.style });
    if (curve.low) group.append(svg("path", { class: "band", d: `${line([...at(curve.high), ...at(curve.low).reverse()])}Z` }));
    group.append(svg("path", { class: "curve", d: line(at(curve.mean)), "stroke-dasharray": curve.looks.dash }));
    curve.k.forEach((k, i) => {
      if (curve.looks.mark && Number.isInteger(Math.log2(k))) {
        const transform = move(box.x(k), box.y(curve.mean[i]));
        group.append(svg("path", { class: "dot", d: shape(curve.looks.mark, 4.2), transform }));
      }
    });
    return group;
  }

  function budgetAt(event) {
    const box = axes(), ks = data.curves[0].k;
    const at = event.clientX - byId("curves").getBoundingClientRect().left;
    return ks.reduce((best, k) => (Math.abs(box.x(k) - at) < Math.abs(box.x(best) - at) ? k : best), ks[0]);
  }

  function readByKey(event) {
    const ks = data.curves[0].k, turn = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!turn) return;
    event.preventDefault();
    readAt(ks[clamp(cursor === null ? 0 : ks.indexOf(cursor) + turn, 0, ks.length - 1)]);
  }

  function readAt(k) {
    cursor = k;
    const line = byId("curves").querySelector(".cursor");
    line.classList.toggle("hidden", k === null);
    const values = [...shown].filter((curve) => curve.k.includes(k)).map((curve) => [curve.name, curve.mean[curve.k.indexOf(k)]]);
    byId("readout").textContent = k === null ? "" :
      `k = ${count(k)}: ${values.sort((a, b) => b[1] - a[1]).map(([name, share]) => `${name} ${percent(share)} %`).join(" · ")}`;
    if (k === null) return;
    const x = axes().x(k);
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  }

  // The pool browser: one problem, two panels, one step.

  const state = { place: -1, step: 0, steps: 1, timer: null };
  const W = 400, H = 300;

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
      this.select.addEventListener("change", () => { this.load(); setSteps(); });
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
      this.problem = data.problems[state.place];
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
      if (last.length) place(this.now, last[last.length - 1]);
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
      if (!this.picks) return;
      const values = this.picks.values;
      const about = values ? `${this.picks.figure}, pick by pick` : "a subset method has no order: it chooses a set for each budget";
      this.title.textContent = [about, this.picks.note].filter(Boolean).join(" · ");
      this.chart.replaceChildren();
      this.marks = [];
      if (values && values.length) this.drawChart(values);
      if (this.picked) this.drawStep(this.picked.length, true);
    }

    drawChart(values) {
      const box = this.chartBox(values), { width, height, y, top } = box;
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
      return correct ? [mark, svg("line", { class: "verdict", x1: x, x2: x, y1: height - 19, y2: height - 13 })] : [mark];
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
      if (index !== null) place(this.looked, this.places[index]);
      const text = at === null ? "" : this.problem.texts[this.problem.text[at]];
      this.head.textContent = at === null ? "Nothing picked yet" : describe(this, at);
      if (this.text.textContent !== begin(text)) this.text.textContent = begin(text);
      this.cut.textContent = Array.isArray(text) ?
        `The first ${count([...text[0]].length)} of ${count(text[1])} characters.` : "";
    }
  }

  const place = (node, [x, y]) => { node.setAttribute("cx", x); node.setAttribute("cy", y); };
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

  function chartGrid({ width, height, x, y, top }, n) {
    const rule = (value) => svg("line", { x1: 40, x2: width - 12, y1: y(value), y2: y(value) });
    const text = (at, down, anchor, words) => svg("text", { x: at, y: down, "text-anchor": anchor }, words);
    return svg("g", { class: "grid", "aria-hidden": "true" }, rule(0), rule(top),
      text(34, y(top) + 4, "end", String(Number(top.toPrecision(2)))), text(34, y(0) + 4, "end", "0"),
      text(x(0), height - 4, "middle", "1"), n > 1 ? text(x(n - 1), height - 4, "end", count(n)) : null);
  }

  function setAt(sets, step) {
    const fitting = Object.keys(sets).map(Number).filter((k) => k <= step);
    return fitting.length ? sets[String(Math.max(...fitting))] : [];
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

  const panels = [];

  function look(panel, index) {
    for (const other of panels) other.drawText(index === null && other !== panel ? null : index);
  }

  // Transport.

  function setSteps() {
    state.steps = Math.max(1, ...panels.map((panel) => panel.length));
    byId("step").max = state.steps;
    go(Math.min(state.step, state.steps));
  }

  function go(step) {
    state.step = clamp(step, 0, state.steps);
    byId("step").value = state.step;
    byId("step").setAttribute("aria-valuetext", `${state.step} of ${state.steps} picks`);
    byId("step-text").textContent = `${count(state.step)} of ${count(state.steps)} picks`;
    byId("back").disabled = state.step === 0;
    byId("next").disabled = state.step === state.steps;
    for (const panel of panels) panel.show(Math.min(state.step, panel.length));
    if (state.timer === null && state.step) {
      const told = panels.filter((panel) => panel.current !== null);
      byId("said").textContent = told.map((panel) => `${panel.side}: ${describe(panel, panel.current)}`).join(". ");
    }
  }

  function pause() {
    if (state.timer !== null) clearTimeout(state.timer);
    state.timer = null;
    byId("play").textContent = "Play";
    byId("play").setAttribute("aria-pressed", "false");
  }

  function play() {
    if (state.step >= state.steps) go(0);
    byId("play").textContent = "Pause";
    byId("play").setAttribute("aria-pressed", "true");
    const tick = () => {
      go(state.step + 1);
      if (state.step >= state.steps) pause();
      else state.timer = setTimeout(tick, 1000 / Number(byId("speed").value));
    };
    state.timer = setTimeout(tick, 150);
  }

  function stepKey(event) {
    const to = { ArrowRight: state.step + 1, ArrowLeft: state.step - 1, Home: 0, End: state.steps }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return false;
    event.preventDefault();
    pause();
    go(to);
    return true;
  }

  function listenToTransport() {
    byId("play").addEventListener("click", () => (state.timer === null ? play() : pause()));
    byId("back").addEventListener("click", () => { pause(); go(state.step - 1); });
    byId("next").addEventListener("click", () => { pause(); go(state.step + 1); });
    byId("step").addEventListener("input", () => { pause(); go(Number(byId("step").value)); });
    byId("reveal").addEventListener("change", () => {
      byId("player").classList.toggle("reveal", byId("reveal").checked);
      for (const panel of panels) panel.show(Math.min(state.step, panel.length));
      showClusters();
    });
    byId("player").addEventListener("keydown", (event) => {
      if (event.target instanceof HTMLButtonElement) stepKey(event);
    });
  }

  // Problems.

  function listProblems() {
    const list = byId("problems");
    data.problems.forEach((problem, at) => {
      const bar = el("span");
      bar.style.width = `${100 * problem.c / Math.max(1, problem.n)}%`;
      const name = begin(problem.id);
      list.append(el("li", { role: "option", tabindex: -1, "data-place": at, "aria-selected": "false",
        "aria-label": `${name}, ${problem.c} of ${problem.n} correct` },
        el("span", { dir: "auto" }, name), el("span", { class: "share" }, `${count(problem.c)}/${count(problem.n)}`),
        el("span", { class: "bar", "aria-hidden": "true" }, bar)));
    });
    list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) choose(Number(item.dataset.place));
    });
    list.addEventListener("keydown", moveInList);
    byId("search").addEventListener("input", filterList);
    byId("search").addEventListener("keydown", (event) => {
      const first = visibleItems()[0];
      if (!first || !["ArrowDown", "Enter"].includes(event.key)) return;
      event.preventDefault();
      choose(Number(first.dataset.place), true);
    });
  }

  const visibleItems = () => [...byId("problems").children].filter((item) => !item.hidden);

  function moveInList(event) {
    const items = visibleItems(), from = items.indexOf(document.activeElement);
    const ends = { Home: 0, End: items.length - 1 }, turns = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    const to = event.key in turns ? from + turns[event.key] : ends[event.key];
    if (to === undefined || !items.length) return;
    event.preventDefault();
    choose(Number(items[clamp(to, 0, items.length - 1)].dataset.place), true);
  }

  function filterList() {
    const wanted = byId("search").value.trim().toLowerCase();
    const items = [...byId("problems").children];
    items.forEach((item, at) => {
      const problem = data.problems[at];
      const hidden = !`${begin(problem.id)}\n${begin(problem.prompt)}`.toLowerCase().includes(wanted);
      item.hidden = hidden;
      item.style.display = hidden ? "none" : "";
    });
    const found = visibleItems();
    byId("found").textContent = wanted ? `${found.length} of ${items.length} problems` : "";
    // One item is always in the tab order: the chosen one, or, where the search hides it, the first that is left.
    items.forEach((item) => item.setAttribute("tabindex", -1));
    const reachable = items[state.place] && !items[state.place].hidden ? items[state.place] : found[0];
    if (reachable) reachable.setAttribute("tabindex", 0);
  }

  function choose(at, focus = false) {
    pause();
    const items = byId("problems").children;
    for (const item of items) {
      const chosen = Number(item.dataset.place) === at;
      item.setAttribute("aria-selected", chosen);
      item.setAttribute("tabindex", chosen ? 0 : -1);
    }
    if (focus) items[at].focus();
    showItem(items[at]);
    state.place = at;
    state.step = 0;
    const problem = data.problems[at];
    byId("problem-title").textContent = begin(problem.id);
    byId("problem-prompt").textContent = begin(problem.prompt) + (Array.isArray(problem.prompt) ? " …" : "");
    showClusters();
    for (const panel of panels) { panel.watched = undefined; panel.load(); }
    setSteps();
  }

  // Scrolls the list, and never the page.
  function showItem(item) {
    const list = byId("problems"), above = item.offsetTop - list.offsetTop;
    if (above < list.scrollTop) list.scrollTop = above;
    const below = above + item.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }

  function showClusters() {
    const problem = data.problems[state.place];
    const chips = problem.answers.map(([label, size], cluster) => chip(cluster, begin(label), size));
    const sizes = (wanted) => problem.cluster.filter((cluster) => cluster === wanted).length;
    if (sizes(OTHER)) chips.push(chip(OTHER, problem.coloured_by === "text" ? "rarer texts" : "rarer answers", sizes(OTHER)));
    if (sizes(NONE)) chips.push(chip(NONE, "no answer", sizes(NONE)));
    if (byId("reveal").checked) {
      chips.push(el("span", {}, svg("svg", { width: 18, height: 18, viewBox: "-9 -9 18 18", "aria-hidden": "true" },
        svg("circle", { class: "ring", r: 6.5 })), el("span", { class: "label" }, "correct"), count(problem.c)));
    }
    byId("clusters").replaceChildren(...chips);
    const { of, variance } = problem.map;
    byId("map-note").textContent = variance === null ? `Map: ${of}; no vector differs from another.` :
      `Map: ${of}, ${percent(variance, 0)} % of the variance is in its two axes. Responses at one place open like a flower.`;
  }

  function chip(cluster, label, size) {
    const mark = svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" },
      svg("g", { class: `pt picked s${cluster}` }, svg("path", { class: "shape", d: shape(SHAPES[cluster], 5.6) })));
    return el("span", {}, mark, el("span", { class: "label", dir: "auto", title: label }, label), `×\u2009${count(size)}`);
  }

  // The problem on which the two selectors differ most, by the mean of their trials' ranks.
  function telling(left, right) {
    const mean = (ranks) => ranks.reduce((sum, rank) => sum + rank, 0) / ranks.length;
    const gaps = data.problems.map((problem) => {
      const [a, b] = [problem.picks[left].ranks, problem.picks[right].ranks];
      return a && b ? Math.abs(Math.log(mean(a) / mean(b))) : 0;
    });
    return gaps.indexOf(Math.max(...gaps));
  }

  function note() {
    const { shown: visible, total, cut_at: cutAt, note: remark } = data.browsing;
    const parts = ["Each point is a response, on the plane of the first two principal components of its vector.",
      "Play what two selectors pick in their first trial."];
    if (visible < total) {
      parts.push(`${count(visible)} of ${count(total)} problems can be browsed: a seeded sample, even over hardness.`);
    }
    if (data.problems.length > 1) parts.push("It opens on the problem where the two differ most.");
    if (cutAt) parts.push(`Texts are cut after ${count(cutAt)} characters.`);
    return [...(visible ? parts : []), remark].filter(Boolean).join(" ");
  }

  function showBrowser() {
    byId("browser-note").textContent = note();
    byId("browser-body").hidden = !data.problems.length;
    if (!data.problems.length) return;
    const orders = data.selectors.map((selector, at) => at).filter((at) => data.selectors[at].kind === "order");
    const right = orders.length > 1 ? orders[orders.length - 1] : data.selectors.length - 1;
    panels.push(new Panel("left", 0), new Panel("right", right));
    byId("panels").append(...panels.map((panel) => panel.root));
    listProblems();
    listenToTransport();
    choose(telling(0, right));
  }

  showHead();
  showTable();
  showCurves();
  showBrowser();
})();
