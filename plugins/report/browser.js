// The pool browser: the list of problems with its order and search, the pools, and playing through the picks.

const state = { place: -1, step: 0, steps: 1, timer: null };

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

// The pools that have no room in the page: each is a script file beside it, loaded when its problem is chosen.

const NONCE = document.currentScript.nonce;

// The problem's view, of the page itself or from its file. Rejects with the reason, in words for the reader.
function viewOf(problem) {
  if (problem.view) return Promise.resolve(problem.view);
  const path = `${data.files.folder}/${problem.at}.js`;
  const script = el("script", { src: path.split("/").map(encodeURIComponent).join("/") });
  script.nonce = NONCE;
  const answer = new Promise((resolve, reject) => {
    script.addEventListener("load", () => {
      const { report, view } = JSON.parse(script.dataset.pool || "{}");
      if (report === data.files.report && begin(view.id) === problem.id) resolve(problem.view = view);
      else reject(`${path} was made for another report. Open the newest page, or run harness report again.`);
    });
    script.addEventListener("error", () => reject(`The responses are in ${path}, which is not beside this page. ` +
      `Keep the folder ${data.files.folder} with the page, or run harness report again.`));
  });
  document.head.append(script);
  return answer.finally(() => script.remove());
}

// The list of problems, and the legend of the problem chosen.

const SORTS = {
  "where the two differ most": (problem) => -gap(problem),
  "hardest first": (problem) => problem.at,
  "easiest first": (problem) => -problem.at,
};

function listProblems() {
  const list = byId("problems");
  for (const problem of problems) {
    const bar = el("span");
    bar.style.width = `${100 * problem.c / Math.max(1, problem.n)}%`;
    problem.item = el("li", { role: "option", tabindex: -1, "data-place": problem.at, "aria-selected": "false",
      "aria-label": `${problem.id}, ${problem.c} of ${problem.n} correct` },
    el("span", { dir: "auto" }, problem.id), el("span", { class: "share" }, `${count(problem.c)}/${count(problem.n)}`),
    el("span", { class: "bar", "aria-hidden": "true" }, bar));
  }
  byId("sort").append(...Object.keys(SORTS).map((name) => el("option", {}, name)));
  byId("sort").addEventListener("change", sortList);
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
  sortList();
}

// Equal ones stay in the order of hardness; the list is at its top afterwards.
function sortList() {
  const by = SORTS[byId("sort").value], keys = new Map(problems.map((problem) => [problem, by(problem)]));
  const sorted = [...problems].sort((one, other) => keys.get(one) - keys.get(other) || one.at - other.at);
  byId("problems").replaceChildren(...sorted.map((problem) => problem.item));
  byId("problems").scrollTop = 0;
}

// Another selector was chosen: the list follows where it is sorted by the difference of the two.
function reorder() {
  if (byId("sort").selectedIndex === 0) sortList();
}

// How much the two selectors differ on a problem, by their mean ranks; one alone is compared with random selection.
function gap(problem) {
  const [left, right] = panels.map((panel) => panel.chosen).map((at) => (data.index.ranks[at] ? { at } : RANDOM));
  return Math.abs(Math.log(calls(left, problem) / calls(left.at === right.at ? RANDOM : right, problem)));
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
  for (const { item, id, at, view: pool } of problems) {
    const prompt = pool ? begin(pool.prompt) : (data.index.prompt || [])[at] || "";
    const hidden = !`${id}\n${prompt}`.toLowerCase().includes(wanted);
    item.hidden = hidden;
    item.style.display = hidden ? "none" : "";
  }
  const found = visibleItems();
  byId("found").textContent = wanted ? `${count(found.length)} of ${count(problems.length)} problems` : "";
  // One item is always in the tab order: the chosen one, or, where the search hides it, the first that is left.
  for (const { item } of problems) item.setAttribute("tabindex", -1);
  const chosen = problems[state.place] && problems[state.place].item;
  const reachable = chosen && !chosen.hidden ? chosen : found[0];
  if (reachable) reachable.setAttribute("tabindex", 0);
}

function choose(at, focus = false) {
  pause();
  for (const { item, at: place } of problems) {
    item.setAttribute("aria-selected", place === at);
    item.setAttribute("tabindex", place === at ? 0 : -1);
  }
  const problem = problems[at];
  if (focus) problem.item.focus({ preventScroll: true });
  showItem(problem.item);
  state.place = at;
  state.step = 0;
  byId("problem-title").textContent = problem.id;
  if (problem.view) showPool(problem);
  else askForPool(problem);
}

// Chooses a problem from elsewhere in the page, and goes to the browser.
function openProblem(at) {
  if (!browsable) return;
  byId("search").value = "";
  filterList();
  choose(at);
  byId("browser").scrollIntoView();
  byId("browser").focus({ preventScroll: true });
}

function showPool({ view: pool }) {
  byId("pool").hidden = false;
  byId("pool-note").textContent = "";
  byId("problem-prompt").textContent = begin(pool.prompt) + (Array.isArray(pool.prompt) ? " …" : "");
  showClusters();
  for (const panel of panels) { panel.watched = undefined; panel.load(); }
  setSteps();
}

// What is known of a problem whose responses are not in the page; they are shown once they are loaded.
async function askForPool(problem) {
  const say = (reason) => { byId("pool-note").textContent = `${reason} ${ranksText(problem)}`; };
  byId("pool").hidden = true;
  byId("problem-prompt").textContent = "";
  if (problem.where !== "f") return say("The store does not hold the responses to this problem.");
  say("Loading the responses …");
  try {
    await viewOf(problem);
    if (state.place === problem.at) showPool(problem);
  } catch (reason) {
    if (state.place === problem.at) say(reason);
  }
}

function ranksText(problem) {
  const of = (ranker) => [data.index.ranks[ranker.at][problem.at]].flat().join(", ");
  const told = rankers.map((ranker) => `${ranker.name} ${of(ranker)}`).join("; ");
  return `${count(problem.c)} of ${count(problem.n)} are correct.${told ? ` Rank of the ${data.about.nth} correct one, in each trial: ${told}.` : ""}`;
}

// Scrolls the list, and never the page.
function showItem(item) {
  const list = byId("problems"), above = item.offsetTop - list.offsetTop;
  if (above < list.scrollTop) list.scrollTop = above;
  const below = above + item.offsetHeight - list.clientHeight;
  if (below > list.scrollTop) list.scrollTop = below;
}

function showClusters() {
  const problem = problems[state.place].view;
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

function note() {
  const { shown: visible, total, cut_at: cutAt, note: remark } = data.browsing;
  const parts = ["Each point is a response, on the plane of the first two principal components of its vector.",
    "Play what two selectors pick in their first trial."];
  if (data.files) {
    parts.push(`The page itself holds the responses to ${count(visible)} of ${count(total)} problems, a seeded sample even over ` +
      `hardness. Those to ${count(data.files.count)} others are in the folder ${data.files.folder} beside it and are loaded when ` +
      `you choose them; there picks end at the ${data.about.nth} correct one.`);
  }
  if (cutAt) parts.push(`Texts are cut after ${count(cutAt)} characters.`);
  return [...(browsable ? parts : []), remark].filter(Boolean).join(" ");
}

function showBrowser() {
  byId("browser-note").textContent = note();
  byId("browser-body").hidden = !browsable;
  if (!browsable) return;
  const left = rankers.length ? rankers[0].at : 0;
  const right = rankers.length > 1 ? rankers[rankers.length - 1].at : data.selectors.length - 1;
  panels.push(new Panel("left", left), new Panel("right", right));
  byId("panels").append(...panels.map((panel) => panel.root));
  listProblems();
  listenToTransport();
  choose(Number(visibleItems()[0].dataset.place));
}

function showCommands() {
  const text = data.commands.join("\n");
  byId("command").textContent = text;
  byId("copy").hidden = !navigator.clipboard;
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    byId("copied").textContent = "Copied.";
  });
}

showQuestions();
showBrowser();
showCommands();
