// The head of the page, the table, and the curves.

function showHead() {
  const about = data.about;
  byId("title").textContent = about.title.join("\u00a0· ");
  document.title = `${about.title.join(" · ")} · diversity-harness`;
  const errors = about.errors ? ` Verifier errors, counted as not correct: ${count(about.errors)}` +
    (about.flagged ? ", over 1 %: the verifier needs a look." : ".") : "";
  byId("about").textContent = `${count(about.problems)} problems, ${count(about.solvable)} of them with ${about.correct === 1 ? "a correct response" : `${about.correct} correct responses`} ` +
    `among ${about.least < about.n ? `${count(about.least)} to ` : ""}${count(about.n)}; ${about.trials} ${about.trials === 1 ? "ranking" : "rankings"} a problem and selector.${errors}` +
    about.remarks.map((remark) => ` ${remark[0].toUpperCase()}${remark.slice(1)}.`).join("");
  const versions = Object.entries(about.versions).map(([name, version]) => `${name} ${version}`).join(", ");
  byId("made").textContent = `Pool ${about.pool}, seed ${about.seed}. Made with ${versions}.`;
}

// What stands in the columns that are shown on demand, of a selector and of a reference line.
const MORE = [
  ["p", (row) => (row.p === 1e-10 ? "≤\u20091e-10" : chance(row.p))],
  ["q", (row) => chance(row.q)],
  ["k95", (row) => (typeof row.k95 === "number" ? count(row.k95) : "–"), (row) => (row.k95 ? count(row.k95) : "")],
  ["calls saved", (row) => (typeof row.calls_saved === "number" ? signed(row.calls_saved) : "–")],
  ["interval", (row) => row.trust || "–"],
];
const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${count(Math.abs(value))}`;

function showTable() {
  const titles = ["selector", "samples-to-correct", "improvement", "against random", "win/tie/loss %"];
  titles.push(...data.budgets.map((k) => `pass@${k} %`));
  const columns = [...titles.map((title) => ({ title })), ...MORE.map(([title]) => ({ title, extra: true }))];
  const scale = forestScale(), [references, measured] = [true, false].map((wanted) => data.rows.filter((row) => row.reference === wanted));
  const rows = measured.map((row) => ({ values: sortedBy(row), node: () => tableRow(row, scale) }));
  const body = el("tbody", {});
  byId("table").append(el("tbody", {}, ...references.map((row) => tableRow(row, scale))), body);
  sortable(byId("table"), columns, rows, body);
  byId("table-note").textContent = data.about.legend.join(" ") + absent() +
    data.about.one_answer.map((line) => ` ${line[0].toUpperCase()}${line.slice(1)}.`).join("");
  byId("more").addEventListener("click", () => showMore(byId("more").getAttribute("aria-expanded") === "false"));
  byId("results-csv").addEventListener("click", () => saveCsv("report-results.csv", resultLines()));
  cue(byId("table").parentElement);
}

// The value of each column by which rows are sorted; null stays last.
function sortedBy(row) {
  const known = (value) => (value === undefined ? null : value);
  return [row.name, row.samples_to_correct, row.improvement, row.improvement, row.shares && row.shares[0], ...row.passed,
    row.p, row.q, row.k95, row.calls_saved, row.trust].map(known);
}

// The table as lines of CSV, with more digits and with the cells' keys.
function resultLines() {
  const heads = ["selector", "samples_to_correct", "improvement", "improvement_low", "improvement_high", "win", "tie", "loss",
    ...data.budgets.map((k) => `pass_at_${k}`), "p", "q", "k95", "calls_saved", "interval", "cell"];
  return [heads, ...data.rows.map((row) => [row.name, row.samples_to_correct, row.improvement,
    ...(row.interval || [null, null]), ...(row.shares || [null, null, null]), ...row.passed,
    row.p, row.q, row.k95, row.calls_saved, row.trust, row.cell])];
}

// Why intervals are shown as a dash.
function absent() {
  const reasons = new Set(data.rows.map((row) => row.no_interval).filter(Boolean));
  return [...reasons].map((reason) => ` [–]: ${reason}.`).join("");
}

function tableRow(row, scale) {
  const ends = row.interval ? ` [${row.interval.map((end) => number(end)).join(", ")}]` : row.no_interval ? " [–]" : "";
  const shares = row.shares ? row.shares.map((share) => percent(share, 0)).join("/") : row.reference ? "" : "–";
  const more = MORE.map(([, measured, reference]) => (row.reference ? (reference || (() => ""))(row) : measured(row)));
  return el("tr", {},
    el("th", { scope: "row" }, row.name),
    el("td", {}, number(row.samples_to_correct)),
    el("td", {}, number(row.improvement), el("span", { class: "interval", title: row.no_interval }, ends)),
    el("td", {}, row.reference ? null : forest(row, scale)),
    el("td", {}, shares),
    ...row.passed.map((share) => el("td", {}, percent(share))),
    ...more.map((text) => el("td", { class: "extra" }, text)));
}

// The columns on demand; on a screen too narrow to show any of them they are brought beside the names.
function showMore(wanted) {
  const table = byId("table"), room = table.parentElement, button = byId("more");
  table.classList.toggle("all", wanted);
  button.setAttribute("aria-expanded", wanted);
  button.textContent = wanted ? "Fewer columns" : "More columns";
  byId("more-note").hidden = !wanted;
  const [first, name] = [table.querySelector(".extra"), table.querySelector("th")];
  const beyond = wanted && first.offsetLeft + first.offsetWidth > room.clientWidth;
  room.scrollLeft = beyond ? first.offsetLeft - name.offsetWidth : 0;
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

showHead();
showTable();

// Curves of pass@k over a log axis: switched on and off by their names, read by pointer or arrow keys.

const shown = new Set();
let cursor = null;

function showCurves() {
  const looks = new Map(data.selectors.map((selector) => [selector.name, drawnAs(selector.look)]));
  const answers = data.curves.filter((curve) => curve.kind === "answer");
  answers.forEach((curve, place) => { curve.looks = ANSWER_LOOKS[place % ANSWER_LOOKS.length]; });
  byId("answers-note").hidden = !answers.length;
  data.curves.forEach((curve, place) => {
    curve.looks ||= { random: RANDOM_LOOK, oracle: ORACLE_LOOK }[curve.kind] || looks.get(curve.name);
    if (place < 8 + answers.length) shown.add(curve);
    const button = el("button", { type: "button", "aria-pressed": String(shown.has(curve)) }, swatch(curve.looks), curve.name);
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

function swatch({ style, dash, mark }) {
  return svg("svg", { class: style, width: 42, height: 14, viewBox: "0 0 42 14", "aria-hidden": "true" },
    svg("line", { class: "swatch", x1: 1, x2: 41, y1: 7, y2: 7, "stroke-width": WIDTH, "stroke-dasharray": dash }),
    mark ? svg("path", { class: "dot", d: shape(mark, 4.2), transform: "translate(21 7)" }) : null);
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

function drawCurves() {
  const box = axes();
  const names = [...shown].map((curve) => curve.name).join(", ");
  const drawn = svg("svg", {
    viewBox: `0 0 ${box.width} ${box.height}`, role: "img", tabindex: 0,
    "aria-label": `pass@k against the budget k, log axis, for ${names || "no curve"}. Left and right arrow read values.`,
  }, grid(box));
  for (const curve of shown) drawn.append(curveGroup(curve, box));
  // Many bands make one grey cloud: the more there are, the fainter each.
  drawn.style.setProperty("--crowd", Math.min(1, 4 / [...shown].filter((curve) => curve.low).length));
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
      words(box.left - 8, box.y(share) + 4, "end", `${100 * share}${share === 1 ? " %" : ""}`));
  }
  for (let k = 1; k <= box.top; k *= box.top > 200 ? 4 : 2) {
    group.append(words(box.x(k), box.height - box.below + 17, "middle", count(k)));
  }
  group.append(words((box.left + box.width - box.right) / 2, box.height - 3, "middle", "k, verifier calls a problem"));
  return group;
}

function curveGroup(curve, box) {
  const at = (shares) => shares && curve.k.map((k, i) => [box.x(k), box.y(shares[i])]);
  return curveNode(curve.looks, at(curve.mean), at(curve.low), at(curve.high), (i) => Number.isInteger(Math.log2(curve.k[i])));
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

showCurves();
