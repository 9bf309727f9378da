// The head of the page and the table.

function showHead() {
  const about = data.about;
  byId("title").textContent = about.title.join("\u00a0· ");
  document.title = `${about.title.join(" · ")} · diversity-harness`;
  const errors = about.errors ? ` Verifier errors, counted as not correct: ${count(about.errors)}` +
    (about.flagged ? ", over 1 %: the verifier needs a look." : ".") : "";
  byId("about").textContent = `${count(about.problems)} problems, ${count(about.solvable)} of them with a correct response ` +
    `among ${count(about.n)}; ${about.trials} ${about.trials === 1 ? "ranking" : "rankings"} a problem and selector.${errors}` +
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

const WORTH = {
  "few problems": " With so few problems an interval is a rough guide.",
  rough: " A few hard problems hold much of the calls: an interval is a rough guide.",
};

function showTable() {
  const titles = ["selector", "samples-to-correct", "improvement", "against random", "win/tie/loss %"];
  titles.push(...data.budgets.map((k) => `pass@${k} %`));
  const columns = [...titles.map((title) => ({ title })), ...MORE.map(([title]) => ({ title, extra: true }))];
  const scale = forestScale(), [references, measured] = [true, false].map((wanted) => data.rows.filter((row) => row.reference === wanted));
  const rows = measured.map((row) => ({ values: sortedBy(row), node: () => tableRow(row, scale) }));
  const body = el("tbody", {});
  byId("table").append(el("tbody", {}, ...references.map((row) => tableRow(row, scale))), body);
  sortable(byId("table"), columns, rows, body);
  byId("table-note").textContent =
    "samples-to-correct: mean rank of the first correct response (n + 1 where there is none). improvement: random's mean / " +
    "the selector's, with 95 % interval over problems; above 1 = fewer verifier calls. win/tie/loss: chance of a lower, " +
    "equal, higher rank than a random order has. oracle, anti-oracle: who knows the verdicts and takes a correct response " +
    `first, or last.${WORTH[data.about.trust] || ""}${absent()}` +
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
