// Where the responses of a problem lie on the map, and what is said of one.

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
