"""verl's real GRPO trainer on a CPU, with the embedded model: bonuses, hidden states, validation, death, resuming.

These need verl's environment (HARNESS_VERL_PYTHON, else .venv-verl); CI must have one. Ray's start and imports are
nearly all that a run costs, so there is one, which is killed and goes on, and each life shows several things.
"""

import hashlib
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.environments import environment_python
from support.json_lines import read_json_lines, write_json_lines
from support.paths import SUPPORT
from support.processes import free_port, processes_with, run_to_end
from support.recording_bonus import RECORDING, hold, recorded
from support.training_runs import game24_run

from harness import Sampler
from harness.records import SampleRequest
from harness.system.children import run_child
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models.location import embedded
from harness_plugins.rl.rewards import Shaping
from harness_plugins.rl.training import Settings, TrainingRun, read_metrics, read_problems
from harness_plugins.rl.verl_trainer import OPTIMISER, VARIABLE, Verl

MODEL = "tiny24-weak"
COUNTS = {"batch": 4, "mini_batch": 2, "micro_batch": 4, "rollouts": 4, "steps": 4, "save_every": 2, "dev_samples": 2}
SMALL = Settings(learning_rate=1e-4, max_prompt=64, max_response=64, **COUNTS)
AIME = Settings(batch=512, mini_batch=128, micro_batch=8, max_prompt=2048, max_response=8192, save_every=10)
HANGS_S = 1200.0  # a run takes a minute or two; ten on a machine that does much else

F = "actor_rollout_ref"
LINES = {  # overrides, and with what they are refused
    f"{F}.actor.use_kl_loss=False": "hidden=ref needs the reference to run",
    f"{F}.model.lora_rank=8": "take hidden=policy", f"{F}.actor.ulysses_sequence_parallel_size=2": "cuts rows apart",
    "trainer.use_v1=False": "V1 trainer", "trainer.nnodes=1": "taken",
}  # fmt: skip
MICRO = f"{F}.ref.log_prob_micro_batch_size_per_gpu=4"
PACKED, POLICYS = f"{F}.model.use_remove_padding=True", f"{F}.rollout.log_prob_micro_batch_size_per_gpu=4"
BY_TOKENS = (f"{F}.ref.log_prob_use_dynamic_bsz=True", f"{F}.ref.log_prob_max_token_len_per_gpu=64")
LAYOUTS = {
    "in bfloat16, as on GPUs": ("ref", MICRO, f"++{F}.ref.fsdp_config.mixed_precision.param_dtype=bf16"),
    "packed, in batches by tokens": ("ref", *BY_TOKENS, PACKED),
    "of the policy, packed": ("actor", PACKED, POLICYS),
    "of the policy with an adapter": ("actor", f"{F}.model.lora_rank=4", POLICYS),
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> Path:
    """verl's interpreter; on CI it must be there."""
    return environment_python(VARIABLE, "verl")


def made(path: Path, **changed: object) -> TrainingRun:
    """A run whose third and fourth steps have the problems of the first two again, so that the bonus remembers them."""
    fields = {"model": MODEL, "bonus": "recording", "trainer": "verl", "settings": SMALL, "plugin_files": (RECORDING,)}
    return game24_run(path, 8, 4, **fields | changed)


@pytest.fixture(scope="module")
def inside(python, tmp_path_factory) -> dict:
    """What one process of verl's environment answers, see inside_verl.py."""
    run = made(tmp_path_factory.mktemp("inside"))
    launched = Verl(python=str(python)).launch(run).environment
    papers = made(tmp_path_factory.mktemp("papers"), cpu=False, settings=AIME)  # a run of the paper, on GPUs
    Verl(python=str(python)).launch(papers)
    questions = {"environment": {**launched, "MASTER_PORT": str(free_port())}, "papers": str(papers.folder)}
    questions |= {"overrides": list(LINES), "layouts": list(LAYOUTS.values())}
    done = run_to_end([python, SUPPORT / "inside_verl.py", run.folder], input=json.dumps(questions), timeout=HANGS_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_hidden_means_are_those_of_a_direct_forward_and_padding_is_no_part_of_a_group(inside):
    assert inside["outside"] == {"loaded": True, "active": False}  # outside a run of ours the plugin does nothing
    cosines = dict(zip(LAYOUTS, inside["cosines"], strict=True))
    assert not {layout: cosine for layout, cosine in cosines.items() if cosine < 0.9999}
    assert not {bonus: answers for bonus, answers in inside["padding"].items() if not all(answers.values())}


def test_a_run_of_the_paper_composes_and_configurations_in_which_states_would_be_wrong_are_one_line(inside):
    assert inside["papers"] == [512, "harness", 8]
    assert not {text: reason for text, reason in LINES.items() if reason not in inside["lines"][text]}
    status, err = inside["child"]
    assert (status, "no_such_key" in err.strip().splitlines()[-1], "Traceback" in err) == (2, True, False)


def test_each_of_two_workers_pools_its_own_rows(python, tmp_path):
    common = {**os.environ, **Verl(python=str(python)).launch(made(tmp_path)).environment}
    common |= {"MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    (given := tmp_path / "layouts").write_text(json.dumps({"layouts": [["ref", MICRO, "trainer.n_gpus_per_node=2"]]}))
    command, logs = [python, SUPPORT / "inside_verl.py", tmp_path], [tmp_path / f"{rank}.txt" for rank in (0, 1)]
    workers = []
    for rank, log in enumerate(logs):
        with given.open() as layouts, log.open("w") as out:
            own = common | {"RANK": str(rank)}
            workers.append(subprocess.Popen(command, env=own, stdin=layouts, stdout=out, stderr=out))
    assert [worker.wait(HANGS_S) for worker in workers] == [0, 0], logs[0].read_text()[-3000:]
    assert all(json.loads(log.read_text().splitlines()[-1])["cosines"][0] >= 0.9999 for log in logs)


# Training


class Killed(Exception):
    """What the test raises in place of whoever ends the run."""


@pytest.fixture(scope="module")
def resumed(python, tmp_path_factory):
    """Four steps with RepExp's bonus and its memory, killed in the fourth, as if it had died right after a checkpoint.

    The run, the log of its first life, and what was then there: checkpoints and processes.
    """
    run = made(tmp_path_factory.mktemp("resumed") / "run")
    launch = Verl(python=str(python)).launch(run)
    log, held = run.folder / "log.txt", hold(run.folder, 4)
    hangs_at = time.monotonic() + 2 * HANGS_S

    def watch() -> None:
        assert time.monotonic() < hangs_at, f"hangs: {log.read_text()[-2000:]}"
        if held.exists() and len(read_metrics(run.metrics)) == 4:
            raise Killed

    with pytest.raises(Killed):
        run_child(launch.command, launch.environment, log, watch)
    before = read_json_lines(run.metrics)
    saved, left = [each.step for each in Verl().saved(run)], processes_of(run)
    write_json_lines(run.metrics, before[:2])  # not yet validated
    held.unlink()
    assert run_child(launch.command, launch.environment, log, watch) == 0, log.read_text()[-3000:]
    return SimpleNamespace(run=run, before=before, again=read_json_lines(run.metrics), saved=saved, left=left)


def processes_of(run: TrainingRun) -> set[int]:
    """Whatever has the run's name in its environment."""
    return processes_with(f"HARNESS_RL_RUN={run.folder}")


def test_a_killed_run_leaves_no_process_and_goes_on_as_if_it_had_not_been_killed(resumed):
    """What must be the same: figures of the rollouts and of the policy's weights."""
    assert resumed.saved == [2]
    assert not resumed.left | processes_of(resumed.run)
    again, before = resumed.again, resumed.before
    assert [line["step"] for line in again] == [0, 1, 2, 3, 4]
    assert again[:2] == before[:2]
    for step, name in ((2, "reward"), (2, "bonus"), (2, "dev_pass_at_1"), (3, "reward"), (3, "entropy")):
        assert again[step][name] == before[step][name]
    assert again[3]["response_tokens"] == before[3]["response_tokens"]
    for name in ("bonus", "actor/grad_norm"):
        assert again[3][name] == pytest.approx(before[3][name], rel=1e-3)


def test_every_step_is_trained_and_logged_and_some_are_validated_and_saved(resumed):
    lines = resumed.before + resumed.again[4:]
    assert [line["step"] for line in lines if "dev_pass_at_1" in line] == [0, 2, 4]
    for line in lines[1:]:
        assert {"bonus_spread", "gated", "entropy", "response_tokens", "step_s", "grading_errors"} <= set(line)
        assert line["actor/grad_norm"] > 0
        assert line["critic/score/mean"] == pytest.approx(line["reward"])  # verl's own scores stay the verifier's
    assert any(line["bonus"] > 0 for line in lines[1:])
    assert lines[-1]["training/rollout_probs_diff_max"] < 1e-3  # sampler and trainer have the same weights
    assert [checkpoint.step for checkpoint in Verl().saved(resumed.run)] == [2, 4]
    optimisers = resumed.run.checkpoints.glob(f"*/{OPTIMISER}")
    assert [file.parent.parent.name for file in optimisers] == ["global_step_4"]


def test_the_shaped_rewards_are_the_pure_functions(resumed):
    shaping = Shaping(replace(resumed.run, bonus="repexp:persist=true"))
    lines = resumed.before[:3] + resumed.again[3:]
    for step in (1, 2, 3, 4):
        rollouts, shaped = recorded(resumed.run.folder, step)
        again = shaping.shape(rollouts, step)
        assert torch.equal(again.rewards, shaped)
        assert lines[step]["bonus"] == pytest.approx(again.metrics["bonus"], rel=1e-5)


def test_the_states_that_the_bonus_saw_are_the_initial_models_own(resumed):
    """Each row's problem, mean state and mean log-probability belong together, after queue, workers and balancing."""
    engine, run = Transformers(str(embedded(MODEL))), resumed.run
    messages = {problem.id: chat for problem, chat in read_problems(run.problems["train"])}
    rollouts, _ = recorded(run.folder, 1)
    assert [len(rows) for rows in rollouts.groups().values()] == [SMALL.rollouts] * SMALL.batch
    for problem, rows in rollouts.groups().items():  # sampled again by the harness' own engine from the same streams
        prompt = tuple(engine._checkpoint.prompt_ids(messages[problem]))
        seed = int.from_bytes(hashlib.sha256(repr((run.seed, 0, 0, prompt)).encode()).digest()[:8], "big")
        [responses] = engine.sample(SampleRequest([messages[problem]], 4, Sampler(), 64, [seed], ("mean",)))
        for row in rows:
            nearest = int(np.abs(responses.logprobs / responses.lengths - float(rollouts.logprobs[row])).argmin())
            expected = torch.from_numpy(responses.states["mean"][nearest]).double()
            assert torch.cosine_similarity(rollouts.hidden[row], expected, dim=0) >= 0.9999


def test_a_checkpoint_is_merged_and_sampled_by_the_harness(resumed, python):
    trainer = Verl(python=str(python))
    exported = trainer.export(resumed.run, trainer.saved(resumed.run)[-1])
    prompts = [read_problems(resumed.run.problems["dev"])[0][1]]
    request = SampleRequest(prompts, n=2, sampler=Sampler(), max_tokens=64, seeds=[1])
    assert all("Answer:" in text for text in Transformers(str(exported)).sample(request)[0].texts)
    before, after = (load_file(path / "model.safetensors") for path in (embedded(MODEL), exported))
    assert any(not torch.allclose(before[name].float(), after[name].float(), atol=1e-3) for name in before)
