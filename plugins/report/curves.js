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

showCurves();
