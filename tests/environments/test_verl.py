"""verl's real GRPO trainer on a CPU, with the embedded model: bonuses, hidden states, validation, death, resuming.

These need verl's environment (HARNESS_VERL_PYTHON, else .venv-verl); CI must have one. Each of verl's runs takes a
minute or two on two cores, nearly all of it Ray's start and imports, so each shows several things.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from support.environments import environment_python
from support.json_lines import read_json_lines
from support.paths import SUPPORT
from support.processes import processes_with, run_to_end
from support.training_runs import game24_run

from harness import HarnessError, Sampler
from harness.records import SampleRequest
from harness.system.children import run_child
from harness.training import Settings, TrainingRun
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models.tiny24 import folder
from harness_plugins.rl.run_files import read_problems, write_run
from harness_plugins.rl.shaping import Shaping
from harness_plugins.rl.verl_environment import VARIABLE, find_python, installed
from harness_plugins.rl.verl_trainer import Verl

MODEL = "tiny24-weak"
SMALL = Settings(
    learning_rate=1e-4,
    batch=6,
    mini_batch=3,
    micro_batch=6,
    rollouts=4,
    max_prompt=64,
    max_response=64,
    steps=3,
    save_every=2,
    dev_samples=4,
)

HANGS_S = 1200.0  # a run takes a minute or two; ten on a machine that does much else

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> Path:
    """verl's interpreter; on CI it must be there."""
    return environment_python(VARIABLE, "verl")


def a_run(path: Path, bonus: str = "repexp", overrides: tuple[str, ...] = (), **changed: object) -> TrainingRun:
    """A run of game24 whose third step has problems of the first two again, so that the bonus remembers them."""
    fields = {"model": MODEL, "bonus": bonus, "trainer": "verl", "settings": SMALL, "overrides": overrides}
    return game24_run(path, 12, 5, **fields | changed)


def train(run: TrainingRun, python: Path, watch=lambda: None) -> int:
    """Train to the end; the exit status."""
    launch = Verl(python=str(python)).launch(run)
    log, deadline = run.folder / "log.txt", time.monotonic() + HANGS_S

    def watched() -> None:
        assert time.monotonic() < deadline, f"hangs: {log.read_text()[-2000:]}"
        watch()

    return run_child(launch.command, launch.environment, log, watched)


def curve(run: TrainingRun) -> list[tuple[float, ...]]:
    """What must be the same in two runs of one seed: figures of rollouts and of the policy's weights."""
    names = ("step", "reward", "bonus", "entropy", "response_tokens", "actor/grad_norm", "dev_pass_at_1")
    return [tuple(line.get(name, -1.0) for name in names) for line in read_json_lines(run.metrics)]


def child(run: TrainingRun, python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The child's own command line, to its end."""
    launch = Verl(python=str(python)).launch(run)
    environment = {**os.environ, **launch.environment}
    command = [*launch.command, *arguments]
    return run_to_end(command, env=environment, timeout=HANGS_S)


# The configuration under verl's own schema

GPU_RUNS = {
    "math": Settings(),
    "gsm8k": Settings(),
    "dapo-aime": Settings(batch=512, mini_batch=128, micro_batch=8, max_prompt=2048, max_response=8192, save_every=10),
}


@pytest.mark.parametrize("task", GPU_RUNS)
def test_the_gpu_runs_of_the_paper_compose_under_verls_schema(task, python, tmp_path):
    run = a_run(tmp_path, "repexp", ("trainer.nnodes=1",), cpu=False, settings=GPU_RUNS[task], model="org/model")
    (tmp_path / "model").mkdir()
    run = replace(run, model=str(tiny_copy(tmp_path / "model")))
    write_run(run)
    done = child(run, python, "--compose")
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"train_batch_size: {GPU_RUNS[task].batch}" in done.stdout
    assert "trainer_mode: harness" in done.stdout


def tiny_copy(path: Path) -> Path:
    """A model folder that is not the package's own."""
    for file in folder(MODEL).iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path


def test_an_unknown_override_is_one_line_before_ray_starts(python, tmp_path):
    done = child(a_run(tmp_path, overrides=("trainer.no_such_key=1",)), python)
    assert done.returncode == 2
    assert "no_such_key" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "Ray" not in done.stderr


REFUSED = {
    "actor_rollout_ref.actor.use_kl_loss=False": "hidden=ref needs the reference to run",
    "actor_rollout_ref.model.lora_rank=8": "take hidden=encoder",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2": "cuts rows apart",
    "trainer.use_v1=False": "V1 trainer",
}
ASK = """
import os, sys
from dataclasses import replace
from pathlib import Path
import verl
from harness import HarnessError
from harness_plugins.rl.run_files import read_run
from harness_plugins.rl.verl_child.composing import compose
for override in sys.argv[2:]:
    try:
        compose(replace(read_run(Path(sys.argv[1])), overrides=(override,)))
        print("taken")
    except HarnessError as refusal:
        print(refusal)
"""


def test_what_the_hidden_states_cannot_be_right_in_is_refused(python, tmp_path):
    run = a_run(tmp_path)
    launch = Verl(python=str(python)).launch(run)
    environment = {**os.environ, **launch.environment, "HARNESS_RL_RUN": str(tmp_path)}
    command = [str(python), "-c", ASK, str(tmp_path), *REFUSED, "trainer.nnodes=1"]
    done = run_to_end(command, env=environment, timeout=HANGS_S)
    said = [line for line in done.stdout.splitlines() if line.startswith(("verl:", "taken"))]
    assert len(said) == len(REFUSED) + 1, done.stderr[-2000:]
    assert said[-1] == "taken"
    assert all(reason in line for reason, line in zip(REFUSED.values(), said, strict=False))


def test_a_key_of_ours_that_verl_does_not_have_is_refused(python, tmp_path):
    run = a_run(tmp_path)
    launch = Verl(python=str(python)).launch(run)
    stray = launch.config.replace("save_freq:", "save_frequency:")
    (tmp_path / "verl.yaml").write_text(stray)
    environment = {**os.environ, **launch.environment}
    done = subprocess.run(
        [*launch.command, "--compose"], env=environment, capture_output=True, text=True, timeout=HANGS_S
    )
    assert done.returncode == 2
    assert "verl has no key 'trainer.save_frequency'" in done.stderr


def test_the_environment_is_whole_and_the_contract_holds(python):
    assert installed(find_python(str(python)))["verl"] == "0.9.1"
    check = "from harness_plugins.rl.verl_child import contract; contract.require_version(); contract.require()"
    subprocess.run([python, "-c", check], check=True, capture_output=True, timeout=HANGS_S)


def test_outside_a_run_of_ours_the_plugin_does_nothing(python, tmp_path):
    code = (
        "import sys, verl; from verl.plugin.platform.platform_manager import PlatformRegistry as r;"
        "assert 'harness_plugins.rl.verl_child.plugin' in sys.modules;"
        "assert 'harness_plugins.rl.verl_child.trainer' not in sys.modules; assert 'cpu' not in r.registered_names()"
    )
    subprocess.run(
        [python, "-c", code], check=True, capture_output=True, cwd=tmp_path, timeout=HANGS_S
    )  # no metadata of a source tree


# Hidden states

F = "actor_rollout_ref"
LAYOUTS = {
    "padded, in micro-batches": ("ref", f"{F}.ref.log_prob_micro_batch_size_per_gpu=4"),
    "in bfloat16, as on GPUs": (
        "ref",
        f"{F}.ref.log_prob_micro_batch_size_per_gpu=4",
        f"++{F}.ref.fsdp_config.mixed_precision.param_dtype=bf16",
    ),
    "packed, in batches by tokens": (
        "ref",
        f"{F}.ref.log_prob_use_dynamic_bsz=True",
        f"{F}.ref.log_prob_max_token_len_per_gpu=64",
        f"{F}.model.use_remove_padding=True",
    ),
    "of the policy, packed": (
        "actor",
        f"{F}.model.use_remove_padding=True",
        f"{F}.rollout.log_prob_micro_batch_size_per_gpu=4",
    ),
    "of the policy with an adapter": (
        "actor",
        f"{F}.model.lora_rank=4",
        f"{F}.rollout.log_prob_micro_batch_size_per_gpu=4",
    ),
    "of an encoder": ("encoder",),
}


def hidden(run: TrainingRun, python: Path, layouts: list[tuple[str, ...]], workers: int = 1) -> list[list[dict]]:
    """What each of the workers found for each layout, see verl_hidden_states.py."""
    launch = Verl(python=str(python)).launch(run)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {**os.environ, **launch.environment, "MASTER_PORT": port, "WORLD_SIZE": str(workers)}
    command = [str(python), str(SUPPORT / "verl_hidden_states.py"), str(run.folder), str(folder(MODEL))]
    asked = run.folder / "layouts.json"
    asked.write_text(json.dumps(layouts))
    logs = [run.folder / f"{rank}.txt" for rank in range(workers)]
    started = []
    for rank, log in enumerate(logs):
        with asked.open() as given, log.open("w") as out:
            environment = common | {"RANK": str(rank)}
            started.append(subprocess.Popen(command, env=environment, stdin=given, stdout=out, stderr=out))
    assert [each.wait() for each in started] == [0] * workers, logs[0].read_text()[-3000:]
    return [[json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")] for log in logs]


@pytest.fixture(scope="module")
def found_hidden(python, tmp_path_factory) -> dict[str, dict]:
    """Every layout's figures, all from one process."""
    run = a_run(tmp_path_factory.mktemp("hidden"), trainer="verl:hidden=policy")
    return dict(zip(LAYOUTS, hidden(run, python, list(LAYOUTS.values()))[0], strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hidden_means_are_those_of_a_direct_forward(layout, found_hidden):
    assert found_hidden[layout]["rows"] == 8
    assert found_hidden[layout]["cosine"] >= 0.9999


def test_each_of_two_workers_pools_its_own_rows(python, tmp_path):
    two = ("ref", f"{F}.ref.log_prob_micro_batch_size_per_gpu=4", "trainer.n_gpus_per_node=2")
    for (found,) in hidden(a_run(tmp_path), python, [two], workers=2):
        assert found["cosine"] >= 0.9999


PADDED = """
import json, sys
from pathlib import Path
import torch
import verl
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from harness.training import Rollouts
from harness_plugins.rl.run_files import read_run
from harness_plugins.rl.shaping import Shaping
from harness_plugins.rl.verl_child.trainer import HIDDEN, ShapingTrainer

trainer = ShapingTrainer.__new__(ShapingTrainer)
trainer.shaping, trainer.hidden, trainer.global_steps = Shaping(read_run(Path(sys.argv[1]))), "ref", 1
trainer.config = OmegaConf.create({"algorithm": {"adv_estimator": "grpo"}})
real, width = [0, 1, 3, 4], 6
hidden = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
columns = {
    "extra_info": [{"problem": "a"}] * 5,
    "response_mask": torch.ones(5, 3),
    "old_log_probs": -torch.ones(5, 3),
    HIDDEN: hidden,
}
trainer._columns = lambda batch, *names: {name: columns[name] for name in names}
tags = [{"is_padding": row == 2} for row in range(5)]
batch = KVBatchMeta(keys=[f"u_{row}_0" for row in range(5)], tags=tags, partition_id="train")
scores = [torch.tensor([0.0, 0.0, float(row % 2)]) for row in range(5)]
found = torch.stack(trainer._shaped(batch, scores))
rewards = torch.tensor([float(row % 2) for row in real]).double()
shaped = trainer.shaping.shape(Rollouts(["a"] * 4, rewards, hidden[real].double()), 1).rewards
same = torch.allclose(found[real].sum(1).double(), shaped - shaped.mean(), atol=1e-7)
print(json.dumps([bool(same), torch.equal(found[2], scores[2]), found[:, :2].abs().max().item()]))
"""


def test_padding_rows_are_no_part_of_a_group(python, tmp_path):
    run = a_run(tmp_path)
    environment = (
        os.environ | dict(Verl(python=str(python)).launch(run).environment) | {"HARNESS_RL_RUN": str(tmp_path)}
    )
    command = [str(python), "-c", PADDED, str(tmp_path)]
    done = run_to_end(command, env=environment, timeout=HANGS_S)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [True, True, 0.0]


# Training


@pytest.fixture(scope="module")
def straight(python, tmp_path_factory) -> TrainingRun:
    """Three steps with RepExp's bonus, which keeps what it was given; not interrupted."""
    run = recorded_run(tmp_path_factory.mktemp("straight") / "run")
    assert train(run, python) == 0, (run.folder / "log.txt").read_text()[-3000:]
    return run


def recorded_run(path: Path) -> TrainingRun:
    return a_run(path, "recording", plugin_files=(SUPPORT / "verl_recording.py",))


def test_three_steps_with_repexp_are_trained_validated_and_saved(straight):
    found = read_json_lines(straight.metrics)
    assert [line["step"] for line in found] == [0, 1, 2, 3]
    assert all({"reward", "bonus", "bonus_spread", "gated", "entropy", "step_s"} <= set(line) for line in found[1:])
    assert [line["step"] for line in found if "dev_pass_at_1" in line] == [0, 2, 3]
    assert all(line["actor/grad_norm"] > 0 for line in found[1:])
    assert any(line["bonus"] > 0 for line in found[1:])
    assert found[-1]["training/rollout_probs_diff_max"] < 1e-3  # sampler and trainer have the same weights
    assert [saved.step for saved in Verl().saved(straight)] == [2, 3]


def test_verls_own_scores_stay_the_verifiers(straight):
    for line in read_json_lines(straight.metrics)[1:]:
        assert line["critic/score/mean"] == pytest.approx(line["reward"])


def test_the_states_that_the_bonus_saw_are_the_initial_models_own(straight):
    """Each row's problem, mean state and mean log-probability belong together, after queue, workers and balancing."""
    engine = Transformers(str(folder(MODEL)))
    asked = {problem.id: messages for problem, messages in read_problems(straight.problems["train"])}
    file = straight.folder / "recorded" / "1.safetensors"
    kept, ids = load_file(file), problems_of(file)
    assert len(ids) == SMALL.batch * SMALL.rollouts
    assert all(ids.count(problem) == SMALL.rollouts for problem in ids)
    for problem in set(ids):
        rows = [row for row, each in enumerate(ids) if each == problem]
        responses = replay(engine, straight, asked[problem])
        for row in rows:
            nearest = int(np.abs(responses.logprobs / responses.lengths - float(kept["logprobs"][row])).argmin())
            expected = torch.from_numpy(responses.states["mean"][nearest]).double()
            assert torch.cosine_similarity(kept["hidden"][row], expected, dim=0) >= 0.9999


def problems_of(file: Path) -> list[str]:
    with safe_open(file, "pt") as opened:
        return opened.metadata()["problems"].splitlines()


def replay(engine: Transformers, run: TrainingRun, messages):
    """The first step's rollouts of a problem, drawn again by the harness' own engine from the same streams."""
    import hashlib

    prompt = tuple(engine._checkpoint.prompt_ids(messages))
    text = repr((run.seed, 0, 0, prompt))
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    (responses,) = engine.sample(
        SampleRequest(
            [messages],
            n=SMALL.rollouts,
            sampler=Sampler(),
            max_tokens=SMALL.max_response,
            seeds=[seed],
            states=("mean",),
        )
    )
    return responses


def test_the_shaped_rewards_are_the_pure_functions(straight):
    from harness.training import Rollouts

    shaping = Shaping(replace(straight, bonus="repexp:persist=true"))
    for step in (1, 2, 3):
        file = straight.folder / "recorded" / f"{step}.safetensors"
        kept = load_file(file)
        rollouts = Rollouts(problems_of(file), kept["rewards"], kept["hidden"], kept["logprobs"])
        again = shaping.shape(rollouts, step)
        assert torch.equal(again.rewards, kept["shaped"])
        assert read_json_lines(straight.metrics)[step]["bonus"] == pytest.approx(again.metrics["bonus"], rel=1e-5)


def test_a_checkpoint_is_merged_and_sampled_by_the_harness(straight, python):
    trainer = Verl(python=str(python))
    last = trainer.saved(straight)[-1]
    exported = trainer.export(straight, last)
    assert trainer.export(straight, last) == exported
    (responses,) = Transformers(str(exported)).sample(
        SampleRequest([read_problems(straight.problems["dev"])[0][1]], n=2, sampler=Sampler(), max_tokens=64, seeds=[1])
    )
    assert all("Answer:" in text for text in responses.texts)
    before = load_file(folder(MODEL) / "model.safetensors")
    after = load_file(exported / "model.safetensors")
    assert any(not torch.allclose(before[name].float(), after[name].float(), atol=1e-3) for name in before)


def test_a_broken_checkpoint_cannot_be_merged_and_says_so(straight, python):
    last = Verl().saved(straight)[-1]
    with pytest.raises(HarnessError, match="cannot be merged"):
        Verl(python=str(python)).export(straight, replace(last, path=straight.folder / "nowhere"))


class Killed(Exception):
    """What the test raises in place of whoever ends the run."""


def test_a_killed_run_leaves_nothing_and_goes_on_as_if_it_had_not_been(straight, python, tmp_path):
    run = recorded_run(tmp_path / "run")
    hold = run.folder / "recorded" / "hold"
    hold.parent.mkdir()
    hold.touch()
    mark = run.checkpoints / "global_step_2" / "complete"

    def kill() -> None:
        if mark.is_file():
            raise Killed

    with pytest.raises(Killed):
        train(run, python, kill)
    assert not processes_of(run)
    assert [saved.step for saved in Verl().saved(run)] == [2]
    hold.unlink()
    assert train(run, python) == 0, (run.folder / "log.txt").read_text()[-3000:]
    again, before = curve(run), curve(straight)
    assert (again[:2], again[3]) == (before[:2], before[3])
    assert [again[2][i] for i in (0, 1, 2, -1)] == [before[2][i] for i in (0, 1, 2, -1)]  # logged before or after death
    assert not processes_of(run)


def processes_of(run: TrainingRun) -> set[int]:
    """Whatever has the run's name in its environment."""
    return processes_with(f"HARNESS_RL_RUN={run.folder}")


@pytest.mark.parametrize("bonus", ["unlikely", "none"])
def test_three_steps_with_the_other_bonuses(bonus, straight, python, tmp_path):
    run = a_run(tmp_path / "run", bonus, settings=replace(SMALL, save_every=3))
    assert train(run, python) == 0, (run.folder / "log.txt").read_text()[-3000:]
    steps, others = read_json_lines(run.metrics), read_json_lines(straight.metrics)
    assert [line["step"] for line in steps] == [0, 1, 2, 3]
    assert min(line["bonus"] for line in steps[1:]) < 0 if bonus == "unlikely" else True
    assert max(line["bonus"] for line in steps[1:]) <= 0  # a correct rollout that is the least likely loses nothing
    first, same = steps[1], others[1]  # of one seed: the first rollouts do not depend on the bonus
    assert (first["reward"], first["entropy"]) == (same["reward"], same["entropy"])
