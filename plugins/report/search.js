// The page of a search: hits by call with the band of chance, the map of the candidates, and the list of all picks.

const FOUND = { style: "s0", dash: null, mark: null };
const TITLES = ["order", "call", "name", "index", "outcome", "value", "cluster"];
let view = data.views[0], nodes = new Map();

function steps(found) {
  return found.flatMap((value, place) => [[place + 1, place ? found[place - 1] : 0], [place + 1, value]]);
}

function drawFound() {
  const { chance: band, found } = view, total = found.length;
  const width = Math.max(280, byId("curve").clientWidth), height = clamp(0.45 * width, 220, 380);
  const most = Math.max(1, ...found, ...band.high), x = (t) => 46 + (width - 60) * t / Math.max(1, total);
  const y = (value) => height - 38 - (height - 50) * value / most, at = (values) => band.at.map((t, i) => [x(t), y(values[i])]);
  const grid = svg("g", { class: "grid", "aria-hidden": "true" });
  for (const value of new Set([0, Math.round(most / 2), most])) {
    grid.append(svg("line", { x1: 46, x2: width - 14, y1: y(value), y2: y(value) }), words(38, y(value) + 4, "end", count(value)));
  }
  for (const t of new Set([0, Math.round(total / 2), total])) grid.append(words(x(t), height - 21, "middle", count(t)));
  grid.append(words(x(total / 2), height - 3, "middle", "outcomes"));
  byId("curve").replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Hits by outcome: ${count(found[total - 1] || 0)} after ${count(total)}` }, grid,
  curveNode(RANDOM_LOOK, at(band.mean), at(band.low), at(band.high)),
  curveNode(FOUND, [[x(0), y(0)], ...steps(found).map(([t, value]) => [x(t), y(value)])], null, null)));
  const line = ({ style, dash }) => svg("svg", { class: style, width: 42, height: 14, viewBox: "0 0 42 14", "aria-hidden": "true" },
    svg("line", { class: "swatch", x1: 1, x2: 41, y1: 7, y2: 7, "stroke-width": WIDTH, "stroke-dasharray": dash }));
  byId("legend").replaceChildren(el("span", {}, line(FOUND), " this search "),
    el("span", {}, line(RANDOM_LOOK), band.known ? " a random order " : " the same hits, evenly "));
}

function drawMap() {
  byId("map-part").hidden = !view.map;
  nodes = new Map();
  if (!view.map) return;
  const shown = { ...view, n: view.at.length, text: [] }, r = radius(shown.n), places = spread(shown);
  const asked = new Set(view.rows.map((row) => row.index)), out = new Set(open().map((row) => row.index));
  const points = view.at.map((index, place) => {
    const node = point(shown, place, view.cluster[place], r, places[place]);
    for (const name of ["role", "tabindex", "aria-selected", "aria-label"]) node.removeAttribute(name);
    node.classList.toggle("picked", asked.has(index));
    node.append(svg("title", {}, view.names[place]));
    if (out.has(index)) node.append(svg("circle", { class: "verdict error", r: r * 1.3 }));
    nodes.set(index, node);
    return node;
  });
  byId("map").setAttribute("viewBox", `0 0 ${W} ${H}`);
  byId("map").setAttribute("aria-label", `${count(shown.n)} candidates; the table below lists those that were asked for`);
  byId("map").classList.toggle("many", shown.n > 300);
  byId("map").replaceChildren(...points.filter((node) => !node.matches(".picked")), ...points.filter((node) => node.matches(".picked")));
  byId("clusters").replaceChildren(...view.answers.map(([label, size], cluster) => {
    const rows = view.rows.filter((row) => clusterOf(row) === cluster + 1), hits = rows.filter((row) => row.outcome === "hit");
    return el("span", {}, svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" },
      svg("g", { class: `pt picked s${cluster}` }, svg("path", { class: "shape", d: shape(SHAPES[cluster], 5.6) }))),
    el("span", { class: "label" }, label), `${count(size)}, ${count(rows.length)} asked for, ${count(hits.length)} hits`);
  }));
  const { of, variance } = view.map;
  byId("map-note").textContent = `Map: ${of}` + (variance === null ? "." :
    `, ${percent(variance, 0)} % of the variance is in its two axes. Clusters are k-means of the vectors, the largest first. Full ` +
    "points were asked for; a ring is a hit, a dotted one has no outcome or an error." +
    (view.at.length < view.n ? ` Of the ${count(view.n - asked.size)} others ${count(view.at.length - asked.size)} are shown.` : ""));
}

const open = () => view.rows.filter((row) => row.outcome === "open");
const clusterOf = (row) => (view.map ? view.cluster[view.at.indexOf(row.index)] + 1 : null);
const cells = () => view.rows.map((row, place) =>
  [place + 1, row.call, row.name, row.index, row.outcome, row.value, clusterOf(row)]);

function pointAt(index) {
  for (const [own, node] of nodes) node.querySelector(".shape").style.fillOpacity = own === index ? 1 : "";
  const row = view.rows.find((each) => each.index === index);
  byId("readout").textContent = index === null ? "" : [view.names[view.at.indexOf(index)], row ? row.outcome : "not asked for",
    row && row.value !== null ? String(row.value) : null].filter(Boolean).join(" · ");
}

function show() {
  byId("about").textContent = [view.id, data.about.selector, data.about.embedder || data.about.model,
    data.about.verifier === "--ask" ? null : data.about.verifier].filter(Boolean).join(" · ");
  byId("said").textContent = `${view.said} `;
  drawFound();
  drawMap();
  const names = open().map((row) => row.name);
  byId("out").textContent = names.length ? `${count(names.length)} without an outcome: ${names.join(", ")}` : "Nothing: all that was asked for has an outcome.";
  const body = el("tbody", {});
  byId("table").replaceChildren(body);
  sortable(byId("table"), TITLES.map((title) => ({ title })), cells().map((values) => ({ values, node: () => {
    const node = el("tr", {}, ...values.map((value, column) => el(column === 2 ? "th" : "td", column === 2 ? { scope: "row", dir: "auto" } : {},
      value === null ? "–" : String(value))));
    node.addEventListener("pointerenter", () => pointAt(values[3]));
    return node;
  } })), body);
}

byId("title").textContent = data.journal;
if (data.views.length < 2) byId("choice").remove();
const chooser = byId("problem") || el("select");
chooser.append(...data.views.map((each, place) => el("option", { value: place }, each.id)));
chooser.addEventListener("change", () => { view = data.views[Number(chooser.value)]; show(); });
byId("csv").addEventListener("click", () => saveCsv(`${view.id}.csv`, [TITLES, ...cells()]));
byId("map").addEventListener("pointerover", (event) => {
  const node = event.target.closest(".pt"), own = [...nodes].find(([, each]) => each === node);
  pointAt(own ? own[0] : null);
});
new ResizeObserver(drawFound).observe(byId("curve"));
cue(document.querySelector(".scroll"));
show();
