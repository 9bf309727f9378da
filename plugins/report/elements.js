// Elements of the page, numbers as text, and the shapes that tell clusters and curves apart where colours do not.
// Every text may come from a model: it goes into the page as a text node or an attribute's value, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const OTHER = 7, NONE = 8;
const WIDTH = 2.2;  // of a curve
// How a selector is drawn: the same as in the plots of `harness plot`.
const drawnAs = ({ colour, marker, dash }) => ({ style: `s${colour}`, mark: marker, dash: dash.length ? dash.map((part) => part * WIDTH).join(" ") : null });
const RANDOM_LOOK = { style: "random", dash: "11 3.3", mark: null }, ORACLE_LOOK = { style: "oracle", dash: "2.2 2.2", mark: null };
// avg@k, maj@k, and best of k by each score, in turn.
const ANSWER_LOOKS = [["11 2.2 2.2 2.2", null], ["5.5 2.2", "small"], ["17 3.3 2.2 3.3", null], ["17 3.3", "small"]]
  .map(([dash, mark]) => ({ style: "oracle", dash, mark }));
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
const chance = (value) => (value === null || value === undefined ? "–" :
  value >= 1e-4 ? value.toPrecision(2) : String(Number(value.toPrecision(2))));
const count = (value) => value.toLocaleString("en-US");
const begin = (text) => (Array.isArray(text) ? text[0] : text);
const move = (x, y) => `translate(${x.toFixed(1)} ${y.toFixed(1)})`;
const line = (points) => (points.length ? `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}` : "");
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const words = (x, y, anchor, text) => svg("text", { x, y, "text-anchor": anchor }, text);

const POLYGONS = {
  square: [[-0.86, -0.86], [0.86, -0.86], [0.86, 0.86], [-0.86, 0.86]],
  up: [[0, -1.15], [1.05, 0.75], [-1.05, 0.75]],
  diamond: [[0, -1.22], [1.05, 0], [0, 1.22], [-1.05, 0]],
  down: [[0, 1.15], [1.05, -0.75], [-1.05, -0.75]],
  plus: [[-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4],
    [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]],
  hexagon: [[-0.55, -0.98], [0.55, -0.98], [1.1, 0], [0.55, 0.98], [-0.55, 0.98], [-1.1, 0]],
  cross: [[-0.95, -0.5], [-0.5, -0.95], [0, -0.45], [0.5, -0.95], [0.95, -0.5], [0.45, 0], [0.95, 0.5], [0.5, 0.95], [0, 0.45],
    [-0.5, 0.95], [-0.95, 0.5], [-0.45, 0]],
  left: [[-1.15, 0], [0.75, -1.05], [0.75, 1.05]],
  right: [[1.15, 0], [-0.75, -1.05], [-0.75, 1.05]],
  star: corners(10, (place) => (place % 2 ? 0.5 : 1.25)),
  pentagon: corners(5, () => 1.12),
};

function corners(many, reach) {
  const turn = (place) => Math.PI * (2 * place / many - 0.5);
  return Array.from({ length: many }, (_, place) => [reach(place) * Math.cos(turn(place)), reach(place) * Math.sin(turn(place))]);
}

// A curve with its band, and a dot at each of its points that `marked` takes.
function curveNode({ style, dash, mark }, middle, low, high, marked = () => true) {
  const dots = mark ? middle.filter((_, place) => marked(place)) : [];
  return svg("g", { class: style },
    low ? svg("path", { class: "band", d: `${line([...high, ...low.reverse()])}Z` }) : null,
    svg("path", { class: "curve", d: line(middle), "stroke-dasharray": dash }),
    ...dots.map(([x, y]) => svg("path", { class: "dot", d: shape(mark, 4.2), transform: move(x, y) })));
}

const SHAPES = ["circle", "square", "up", "diamond", "down", "plus", "hexagon", "small", "circle"];

function shape(kind, r) {
  if (POLYGONS[kind]) return `M${POLYGONS[kind].map(([x, y]) => `${(x * r).toFixed(2)},${(y * r).toFixed(2)}`).join("L")}Z`;
  const radius = kind === "small" ? 0.6 * r : r;
  return `M${-radius},0a${radius},${radius} 0 1,0 ${2 * radius},0a${radius},${radius} 0 1,0 ${-2 * radius},0Z`;
}

// Tables that are sorted by their headings, and saved as CSV.

// columns: [{ title, extra? }], rows: [{ values, node() }], one value a column: a number, a text, or null, which stays last.
// The rows go into `body`, at most `most` of them; a click, Enter or Space on a heading sorts all.
function sortable(table, columns, rows, body, most = Infinity) {
  const show = () => body.replaceChildren(...rows.slice(0, most).map((row) => row.node()));
  const headings = columns.map(({ title, extra }, column) => {
    const button = el("button", { type: "button", class: "sort" }, title);
    const heading = el("th", { scope: "col", class: extra ? "extra" : null, "aria-sort": "none" }, button);
    button.addEventListener("click", () => {
      const turn = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
      rows.sort((one, other) => compared(one.values[column], other.values[column], turn));
      show();
    });
    return heading;
  });
  table.prepend(el("thead", {}, el("tr", {}, ...headings)));
  show();
}

function compared(one, other, turn) {
  if (one === null || other === null) return (one === null) - (other === null);
  return turn * (typeof one === "number" ? one - other : one < other ? -1 : one > other ? 1 : 0);
}

// A spreadsheet runs a text that begins like a formula: such a text gets a ' in front, as in the harness' own CSV files.
const FORMULA = /^ *[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20']/;

function csvCell(value) {
  if (value === null || value === undefined) return "";
  const short = typeof value === "number" ? Number(value.toPrecision(6)) : value;
  const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(short);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveCsv(name, lines) {
  const text = lines.map((line) => `${line.map(csvCell).join(",")}\n`).join("");
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Says that a wide table goes on to the right: a shade at its edge, and words where the screen is narrow.
function cue(room) {
  const look = () => room.parentElement.classList.toggle("goes-on", room.scrollLeft + room.clientWidth < room.scrollWidth - 2);
  room.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(room);
  new ResizeObserver(look).observe(room.firstElementChild);
}
