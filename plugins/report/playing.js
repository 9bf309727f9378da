// The problem shown and the step; playing, stepping and dragging through the picks of both panels.

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
