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

const SHAPES = ["circle", "square", "up", "diamond", "down", "plus", "hexagon", "small", "circle"];

function shape(kind, r) {
  if (POLYGONS[kind]) return `M${POLYGONS[kind].map(([x, y]) => `${(x * r).toFixed(2)},${(y * r).toFixed(2)}`).join("L")}Z`;
  const radius = kind === "small" ? 0.6 * r : r;
  return `M${-radius},0a${radius},${radius} 0 1,0 ${2 * radius},0a${radius},${radius} 0 1,0 ${-2 * radius},0Z`;
}
