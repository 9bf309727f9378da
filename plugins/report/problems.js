// The list of problems, their search, the legend of the problem chosen; and the browser as a whole.

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

showBrowser();
