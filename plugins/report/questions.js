// Question by question: samples-to-correct by hardness, one mark a question, and a table of all problems.

const problems = data.index.id.map((id, at) => (
  { at, id: begin(id), n: data.index.n[at], c: data.index.c[at], where: data.index.where[at], view: null }));
const browsable = problems.some((problem) => problem.where !== "-");
problems.filter((problem) => problem.where === "p").forEach((problem, place) => { problem.view = data.problems[place]; });

const expected = (problem) => Math.min(data.about.correct, problem.c + 1) * (problem.n + 1) / (problem.c + 1);  // of random selection, exactly
const rankers = data.selectors.map((selector, at) => ({ ...selector, at })).filter((selector) => selector.kind === "order");
const RANDOM = { name: "random (exact)", at: null, look: null };
// The mean rank of a problem's correct response that is counted to: of a selector, or of random selection.
const calls = (ranker, problem) => (ranker.at === null ? expected(problem) : mean([data.index.ranks[ranker.at][problem.at]].flat()));

const BINS = 10;
const view = { selector: rankers[0], against: RANDOM, bins: bins(), marks: [], mark: null };

// Places of the problems in parts of equal size, the easiest first; equally hard ones in the order of their ids.
function bins() {
  const sorted = [...problems].sort((a, b) => expected(a) - expected(b) || (a.id < b.id ? -1 : 1));
  const parts = Math.min(BINS, sorted.length), size = Math.floor(sorted.length / parts), larger = sorted.length % parts;
  const start = (part) => part * size + Math.min(part, larger);
  return Array.from({ length: parts }, (_, part) => sorted.slice(start(part), start(part + 1)));
}

function showQuestions() {
  byId("ranked").hidden = !rankers.length;
  byId("unranked").hidden = rankers.length > 0;
  if (rankers.length) {
    fillChoice("of", rankers, (chosen) => { view.selector = chosen; });
    fillChoice("against", [RANDOM, ...rankers], (chosen) => { view.against = chosen; });
    for (const name of ["hardness", "scatter"]) new ResizeObserver(drawQuestions).observe(byId(name));
    byId("scatter").addEventListener("pointerover", (event) => { if (event.target.dataset.mark) readMark(Number(event.target.dataset.mark)); });
    byId("scatter").addEventListener("click", (event) => { if (event.target.dataset.mark) openMark(Number(event.target.dataset.mark)); });
    drawQuestions();
  }
  byId("all-problems").addEventListener("toggle", listAll, { once: true });
  byId("problems-csv").addEventListener("click", () => saveCsv("report-problems.csv", problemLines()));
}

function fillChoice(id, choices, take) {
  byId(id).append(...choices.map((choice, place) => el("option", { value: place }, choice.name)));
  byId(id).addEventListener("change", () => { take(choices[Number(byId(id).value)]); view.mark = null; drawQuestions(); });
}

function drawQuestions() {
  drawHardness();
  drawScatter();
}

// Both charts: a box with log axes of calls where asked. `to(value)` is between 0 and 1.
function scale(low, high) {
  const [first, last] = [Math.log(low / 1.1), Math.log(high * 1.1)];
  const ladder = (steps) => [1, 10, 100, 1000, 1e4, 1e5].flatMap((power) => steps.map((step) => step * power))
    .filter((step) => Math.log(step) >= first && Math.log(step) <= last);
  const coarse = ladder([1, 2, 5]);
  return { to: (value) => (Math.log(value) - first) / (last - first), ticks: coarse.length > 3 ? coarse : ladder([1, 1.5, 2, 3, 4, 5, 7]) };
}

function frame(id) {
  const width = Math.max(250, byId(id).clientWidth), height = clamp(0.72 * width, 220, 400);
  const left = 58, right = 12, up = 10, below = 38;
  return { width, height, x: (share) => left + (width - left - right) * share, y: (share) => height - below - (height - up - below) * share };
}

const short = (name) => (name.length > 22 ? `${name.slice(0, 21)}…` : name);

function axisTexts(box, across, down, [below, beside]) {
  return svg("g", { class: "grid", "aria-hidden": "true" },
    ...down.ticks.map((tick) => svg("line", { x1: box.x(0), x2: box.x(1), y1: box.y(down.to(tick)), y2: box.y(down.to(tick)) })),
    ...down.ticks.map((tick) => words(box.x(0) - 8, box.y(down.to(tick)) + 4, "end", count(tick))),
    ...across.ticks.map((tick) => words(box.x(across.to(tick)), box.height - 21, "middle", count(tick))),
    words(box.x(0.5), box.height - 3, "middle", below),
    svg("text", { "text-anchor": "middle", transform: `translate(12 ${box.y(0.5)}) rotate(-90)` }, beside));
}

// Mean and standard error of each part, for random selection and the two that are compared.
function hardnessLines() {
  const shown = [RANDOM, view.against, view.selector].filter((ranker, place, all) => all.indexOf(ranker) === place);
  return shown.map((ranker) => ({ ranker, parts: view.bins.map((part) => meanAndError(part.map((problem) => calls(ranker, problem)))) }));
}

function meanAndError(values) {
  const middle = mean(values), spread = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const error = values.length > 1 ? Math.sqrt(spread / (values.length - 1) / values.length) : 0;
  return { mean: middle, low: Math.max(1, middle - error), high: middle + error };
}

const looksOf = (ranker) => (ranker.look ? drawnAs(ranker.look) : RANDOM_LOOK);

function drawHardness() {
  const box = frame("hardness"), lines = hardnessLines(), parts = view.bins.length;
  const ends = lines.flatMap((each) => each.parts.flatMap((part) => [part.low, part.high]));
  const down = scale(Math.min(...ends), Math.max(...ends));
  const across = { to: (part) => (part - 0.5) / parts, ticks: view.bins.map((_, part) => part + 1) };
  const drawn = svg("svg", { viewBox: `0 0 ${box.width} ${box.height}`, role: "img", "aria-label": hardnessText(lines) },
    axisTexts(box, across, down, [`part of the problems, ${parts} = hardest`, "mean verifier calls"]));
  for (const { ranker, parts: values } of lines) {
    const at = (name) => values.map((value, part) => [box.x(across.to(part + 1)), box.y(down.to(value[name]))]);
    drawn.append(curveNode(looksOf(ranker), at("mean"), at("low"), at("high")));
  }
  byId("hardness").replaceChildren(drawn);
  byId("hardness-legend").replaceChildren(...lines.map(({ ranker }) => el("span", {}, swatch(looksOf(ranker)), ranker.name)));
}

function hardnessText(lines) {
  const told = lines.map(({ ranker, parts }) => `${ranker.name} ${parts.map((part) => number(part.mean, 1)).join(", ")}`);
  return `Mean verifier calls in parts of equal size, the easiest first: ${told.join("; ")}`;
}

// Problems with the same two values are one mark, whose area grows with their number; the unsolvable ones are a cross.
function gatherMarks() {
  const marks = new Map();
  for (const problem of problems) {
    const [x, y] = [calls(view.against, problem), calls(view.selector, problem)];
    const solvable = problem.c >= data.about.correct, key = `${x} ${y} ${solvable}`;
    if (!marks.has(key)) marks.set(key, { x, y, solvable, problems: [] });
    marks.get(key).problems.push(problem);
  }
  return [...marks.values()].sort((a, b) => a.x - b.x || a.y - b.y);
}

function drawScatter() {
  view.marks = gatherMarks();
  const box = frame("scatter"), all = view.marks.flatMap((mark) => [mark.x, mark.y]);
  const axis = scale(1, Math.max(2, ...all)), { name } = view.selector;
  const drawn = svg("svg", { viewBox: `0 0 ${box.width} ${box.height}`, tabindex: 0, role: "application",
    "aria-label": `Each problem's mean verifier calls, ${view.against.name} across, ${name} upwards. Arrow keys go from ` +
      `problem to problem${browsable ? ", Enter opens one in the pool browser" : ""}.` },
  axisTexts(box, axis, axis, [`calls of ${short(view.against.name)}`, `calls of ${short(name)}`]),
  svg("line", { class: "diagonal", x1: box.x(axis.to(1)), y1: box.y(axis.to(1)), x2: box.x(1), y2: box.y(1) }),
  svg("text", { x: box.x(0) + 8, y: box.y(1) + 14 }, "more calls"),
  svg("text", { x: box.x(1) - 4, y: box.y(0) - 18, "text-anchor": "end" }, "fewer calls"));
  view.marks.forEach((mark, place) => drawn.append(...markNodes(mark, place, box, axis)));
  view.ring = svg("circle", { class: "looked hidden", r: 9 });
  drawn.append(view.ring);
  drawn.addEventListener("keydown", markKey);
  const focused = byId("scatter").contains(document.activeElement);
  byId("scatter").replaceChildren(drawn);
  if (focused) drawn.focus();
  readMark(view.mark);
}

function markNodes(mark, place, box, axis) {
  const [x, y] = [box.x(axis.to(mark.x)), box.y(axis.to(mark.y))];
  mark.place = [x, y];
  const look = mark.solvable ? looksOf(view.selector).style : "never";
  const size = mark.solvable ? Math.min(16, clamp(80 / Math.sqrt(problems.length), 2.5, 4.5) * Math.sqrt(mark.problems.length)) : 5;
  const node = svg("path", { class: `question ${look}`, "data-mark": place, d: shape(mark.solvable ? "circle" : "cross", size),
    transform: move(x, y) });
  return mark.solvable ? [node] : [node, svg("text", { x: x - 9, y: y + 4, "text-anchor": "end" }, count(mark.problems.length))];
}

function readMark(place) {
  view.mark = place;
  const mark = view.marks[place];
  view.ring.classList.toggle("hidden", !mark);
  byId("scatter-readout").textContent = mark ? markText(mark) : shareText();
  if (mark) circleAt(view.ring, mark.place);
}

function markText({ x, y, problems: [first, ...others] }) {
  const more = others.length ? ` and ${count(others.length)} more` : "";
  return `${first.id}${more}: ${number(x, 1)} calls of ${view.against.name}, ${number(y, 1)} of ${view.selector.name}; ` +
    `${count(first.c)} of ${count(first.n)} correct.`;
}

// How likely fewer, as many and more calls are than those of a random order: exact, unlike a count of the marks.
function shareText() {
  const row = data.rows.find((each) => !each.reference && each.name === view.selector.name);
  if (view.against !== RANDOM || !row || !row.shares) return "";
  const [fewer, equal, more] = row.shares.map((share) => percent(share, 0));
  return `Against one random order: fewer calls ${fewer} %, equal ${equal} %, more ${more} %.`;
}

function markKey(event) {
  const turn = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
  if (turn) {
    event.preventDefault();
    readMark(view.mark === null ? 0 : clamp(view.mark + turn, 0, view.marks.length - 1));
  } else if (event.key === "Enter" && view.mark !== null) {
    openMark(view.mark);
  }
}

function openMark(place) {
  openProblem(view.marks[place].problems[0].at);
}

// The table of all problems; made when it is opened, since it may have many thousand cells.
const MOST_LINES = 1000;

function problemColumns() {
  return ["problem", "n", "correct", "random (exact)", ...rankers.map((ranker) => ranker.name)];
}

const problemValues = (problem) => [problem.id, problem.n, problem.c, expected(problem), ...rankers.map((ranker) => calls(ranker, problem))];
const problemLines = () => [problemColumns(), ...problems.map(problemValues)];

function listAll() {
  const rows = problems.map((problem) => ({ values: problemValues(problem), node: () => problemRow(problem) }));
  const body = byId("problem-table").appendChild(el("tbody"));
  sortable(byId("problem-table"), problemColumns().map((title) => ({ title })), rows, body, MOST_LINES);
  byId("problem-note").textContent = problems.length > MOST_LINES ?
    `The first ${count(MOST_LINES)} of ${count(problems.length)} problems in this order; the CSV has all.` : "";
  cue(byId("problem-table").parentElement);
}

function problemRow(problem) {
  const open = el("button", { type: "button", class: "link", dir: "auto", disabled: !browsable }, problem.id);
  open.addEventListener("click", () => openProblem(problem.at));
  const numbers = [count(problem.n), count(problem.c), number(expected(problem), 1), ...rankers.map((ranker) => number(calls(ranker, problem), 1))];
  return el("tr", {}, el("th", { scope: "row" }, open), ...numbers.map((text) => el("td", {}, text)));
}
