"""A training, by a third party's trainer: command lines, its folder, what a machine must have."""

import io
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.json_lines import write_json_lines
from support.processes import alive, descendants, harness_command, run_to_end, wait_for
from support.refusals import error_line, refusal_of
from support.training_runs import COUNTING, counted_run, counting_request, game24_run

from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.system.progress import Progress
from harness_plugins.models.location import Location, embedded
from harness_plugins.rl import preflight, training
from harness_plugins.rl import training_run as rl
from harness_plugins.rl.commands import TrainRequest
from harness_plugins.rl.training import MetricsLog, Settings, hours_spent, read_metrics, read_problems, read_run

TRAIN = ("rl", "train", "--task", "game24", "--model", "tiny24-weak", "--plugin", COUNTING, "--trainer", "counting")
SMALL = ("--set", "batch=4", "--set", "mini_batch=4", "--limit", "8", "--set", "steps=6")


@pytest.fixture
def train(harness, tmp_path):
    """Run `harness rl train` with the counting trainer."""
    return lambda *arguments: harness(*TRAIN, *SMALL, "--store", tmp_path, *arguments)


@pytest.fixture
def sums(tmp_path, monkeypatch):
    """The options of a training on data of GSM8K's form."""
    monkeypatch.setattr("harness_tasks.gsm8k.DEV", 4)
    rows = [{"question": f"How many is {i}?", "answer": f"It is {i}. #### {i}"} for i in range(8)]
    return {"task": "gsm8k", "data": {"": str(write_json_lines(tmp_path / "sums.jsonl", rows))}}


def test_each_seed_is_a_run_in_a_folder_of_its_own_and_one_that_fails_does_not_end_the_others(train, tmp_path):
    command = ("--trainer", "counting:fails_at=3,fails_with=1", "--seeds", "1", "2", "--json")
    done = train(*command)
    assert done.code == 1
    [row] = done.rows
    assert [row[name] for name in ("seed", "steps", "best_step", "dev_pass_at_1")] == [2, 6, 6, 0.6]
    folder = Path(row["folder"])
    assert folder.parent == tmp_path / "rl"
    assert folder.name.startswith("game24-tiny24-weak-repexp-counting-s2-")
    assert (folder / "log.txt").read_text() == "counted\n"
    problem, messages = read_problems(read_run(folder).problems["train"])[7]
    assert ", ".join(problem.prompt.split()) in messages[0]["content"]
    assert "counts to 6" in done.err
    assert "step 4: reward 0.400, bonus 0.01 (spread 0.001), gated 50 %, dev pass@1 40 %, 2,400 steps/h" in done.err
    last = done.err.splitlines()[-1]
    assert last.startswith("failed: seed 1: rl train: the trainer ended with exit status 1 after step 2: ValueError")
    again = train(*command[:-1])
    assert (again.code, again.err.count("all 6 steps are done"), again.out.count("0.600")) == (0, 1, 2)
    assert "pass@1" in again.out


def test_a_dry_run_prints_the_configuration_and_the_command_and_leaves_nothing(train, tmp_path):
    done = train("--trainer", "counting:fails_at=3", "--dry-run", "optim.lr=1", "+model.x=2")
    assert done.code == 0, done.err
    assert done.out.startswith("fails_at: 3\noverrides: ['optim.lr=1', '+model.x=2']\n# reward: ")
    *_, folder, command = done.out.splitlines()
    assert folder.startswith(f"# folder: {tmp_path}/rl/game24-tiny24-weak-repexp-counting-s0-")
    assert command.startswith(f"# COUNTING=yes {shlex.quote(sys.executable)} ")
    assert command.endswith(folder.removeprefix("# folder: "))
    assert "harness-rl-" not in done.out  # where it was rehearsed
    lacking = train("gpus=8", "--dry-run")  # is said after the configuration
    assert (lacking.code, lacking.err.splitlines()[-1]) == (2, "error: counting: this machine has no 8 GPUs")
    assert "overrides: ['gpus=8']" in lacking.out
    assert not list(tmp_path.iterdir())


REFUSED = (
    ("--set bach=3", "rl: no setting 'bach' (did you mean 'batch'?"),
    ("--set rollouts=many", "rl: rollouts must be a valid integer, unable to parse"),
    ("--set batch", "rl: --set is written KEY=VALUE, got 'batch'"),
    ("--set batch=8", "rl: --set batch is given twice"),
    ("--bonus repexp:lam=0", "repexp: lam must be > 0, got 0"),
    ("--bonus repexp:gate=some", "repexp: gate must be a valid boolean, unable to interpret input or 'mixed'"),
    ("--preset bold", "rl: --preset must be paper or exploring, got 'bold'"),
    ("--trainer verls", "unknown trainer 'verls' (did you mean 'verl'?"),
    ("--data nope=x", "rl: --data is FILE or SPLIT=FILE"),
    ("--seeds 1 1", "rl train: a seed is given twice: 1 1"),
    ("--seeds one", "rl train: --seeds takes whole numbers, got 'one'"),
    ("--seeds 1,2 --out x", "rl train: --out is one run's folder: leave it out with several seeds"),
    ("optimiser", "rl: the trainer's own options are written key=value, got 'optimiser'"),
    ("--limit 0", "rl: --limit must be at least 1, got 0"),
    ("--limit 3", "rl: 3 problems to train on, fewer than a batch of 4: --set batch=N"),
    ("--task aime24", "rl: task 'aime24' says no train split to train with"),
    ("--task gsm8k --reward kind", "rl: --reward must be strict or lenient, got 'kind'"),
)


def test_a_wrong_training_is_refused_with_one_line_and_leaves_no_folder(train, tmp_path):
    for options, message in REFUSED:
        assert error_line(train(*options.split())).startswith(f"error: {message}"), options
    assert not list(tmp_path.glob("rl/*"))


def test_a_training_without_data_or_of_hours_or_without_an_end_is_not_begun_unasked(
    harness, sums, tmp_path, monkeypatch
):
    command = [*TRAIN, *SMALL[:4], "--store", tmp_path]  # 4 prompts with 8 rollouts
    alone = harness(*command, "--set", "steps=700").err.splitlines()[-1]
    assert alone.startswith("error: rl train: not begun, since it takes 22,400 responses of up to")
    assert alone.endswith("--set hours=H, --set steps=N and --set batch=N make it shorter")
    day = harness(*command, "--set", "hours=24", "--seeds", "1", "2", "3")
    assert "since it takes up to about 72:00:00" in day.err
    endless = harness(*command, "--task", sums["task"], "--data", sums["data"][""], "--yes")
    line = "error: rl train: neither hours nor steps are given, and 1,000 epochs are 2,000 steps of 32 responses ("
    assert endless.err.splitlines()[-1].startswith(line)
    monkeypatch.setattr("harness_tasks.data.sources.hub_is_out_of_reach", lambda: True)
    last = harness(*command, "--task", "gsm8k").err.splitlines()[-1]
    assert last.endswith("rl train takes a file for each split: --data train=FILE --data dev=FILE")
    assert not list(tmp_path.glob("rl/*"))


def test_a_wrong_evaluation_is_refused_with_one_line(harness, tmp_path):
    run, other = counted_run(tmp_path, 0), tmp_path / "other"
    other.mkdir()
    (other / "run.json").write_text((run.folder / "run.json").read_text().replace('"tiny24-weak"', '"tiny24-faint"'))
    for arguments, message in (
        ((run.folder, "--step", "3"), f"rl eval: {run.folder} has no checkpoint at step 3 (it has 2, 4, 6)"),
        ((run.folder, "--split", "train"), "rl eval: --split must be test or dev, got 'train'"),
        ((run.folder, "--max-tokens", "0"), "rl eval: --max-tokens must be at least 1, got 0"),
        ((run.folder, other), f"rl eval: {other} has the model 'tiny24-faint', {run.folder} 'tiny24-weak': evaluate"),
        ((other,), f"rl eval: {other} has no complete checkpoint"),
    ):
        line = error_line(harness("rl", "eval", *arguments, "--plugin", COUNTING))
        assert line.startswith(f"error: {message}"), arguments


@pytest.mark.slow
def test_a_second_command_is_refused_and_ctrl_c_ends_the_first_with_its_trainer(tmp_path):
    """One that is killed by signal 9 takes its trainer along: environments/test_trl.py."""
    run = tmp_path / "run"
    command = harness_command(*TRAIN[:-1], "counting:waits_at=4", *SMALL, "--out", run)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: len(read_metrics(run / "metrics.jsonl")) == 3)
            family = descendants(process.pid)
            second = run_to_end(command)
            [line] = second.stderr.splitlines()
            assert (second.returncode, f"rl train: {run} is in use by process {process.pid} on " in line) == (1, True)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted: the trainer was stopped; the same command goes on from its last checkpoint" in stderr
    assert family
    assert not any(map(alive, family))


# From a request to a run


def test_settings_that_cannot_be_and_folders_without_a_run_are_refused(tmp_path):
    for wrong, line in (
        ({"rollouts": 1}, "rl: rollouts must be at least 2, got 1"),
        ({"batch": 10, "mini_batch": 4}, "rl: batch must be a multiple of mini_batch, got 10 and 4"),
        ({"learning_rate": 0.0}, "rl: learning_rate must be > 0, got 0.0"),
        ({"hours": float("inf")}, "rl: hours must be > 0, got inf"),
    ):
        assert refusal_of(Settings, **wrong) == line
    assert refusal_of(read_run, tmp_path).startswith(f"rl: {tmp_path} holds no run.json: it is not the folder of")
    (tmp_path / "run.json").write_text("{}")
    assert refusal_of(read_run, tmp_path).startswith(f"rl: {tmp_path / 'run.json'}: ")


def test_the_papers_settings_are_the_defaults_and_a_tasks_own_hold_unless_others_are_given():
    gsm8k, aime = (build(load_registry(()), "task", name).rl for name in ("gsm8k", "dapo-aime"))
    assert rl.settings(TrainRequest(task="gsm8k"), gsm8k.get("settings", {})) == Settings()
    own = rl.settings(TrainRequest(task="dapo-aime", settings={"rollouts": "4"}), aime["settings"])
    assert (own.batch, own.max_response, own.rollouts) == (512, 8192, 4)
    assert str(rl.bonus(TrainRequest(task="dapo-aime"), aime["bonus"])) == "repexp:dim=128"


def test_the_papers_tasks_are_rewarded_strictly_unless_asked_otherwise_and_never_by_a_fallback(tmp_path, sums):
    request = counting_request(tmp_path, **sums, model=None)
    strict, lenient = (rl.prepare(replace(request, reward=reward), 3) for reward in (None, "lenient"))
    assert (strict.run.model, strict.run.bonus, strict.run.seed) == ("Qwen/Qwen2.5-7B-Instruct", "repexp", 3)
    assert (strict.run.reward, lenient.run.reward, strict.run.task) == ("strict", "lenient", "gsm8k:fallback=no")
    assert strict.run.folder != lenient.run.folder
    other = "reward: lenient, the verifier of gsm8k:fallback=no; --reward strict takes its second grader"
    assert lenient.remarks[0] == other
    single = rl.prepare(counting_request(tmp_path), 0)
    assert (single.run.reward, single.remarks[0]) == ("verifier", "reward: the verifier of game24, its only grader")
    line = refusal_of(rl.prepare, counting_request(tmp_path, reward="strict"), 0)
    assert line == "rl: task 'game24' has one grader, and no stricter one: leave --reward strict out"


def test_a_run_that_breaks_or_is_killed_is_one_line_and_the_same_command_or_one_of_more_steps_goes_on(tmp_path):
    messages, request = io.StringIO(), counting_request(tmp_path, trainer="counting:fails_at=5", out=tmp_path / "run")
    line = refusal_of(rl.train, request, 0, Progress(messages))
    assert line.startswith("rl train: the trainer ended with exit status 1 after step 4: ValueError: the loss is not a")
    assert line.endswith("log.txt); the same command goes on from step 4")
    row = rl.train(request, 0, Progress(messages))
    assert "going on after step 4" in messages.getvalue()
    assert (row["steps"], row["checkpoints"], row["best_step"], row["dev_pass_at_1"]) == (6, 3, 6, 0.6)
    longer = rl.prepare(replace(request, settings={**request.settings, "steps": "7"}), 0).run
    assert longer.settings.steps == 7
    assert [step["step"] for step in read_metrics(longer.metrics)] == [1, 2, 3, 4, 5, 6]
    line = refusal_of(rl.prepare, replace(request, model="tiny24"), 0)
    other = "another model ('tiny24-weak', now 'tiny24'): give another --out"
    assert line == f"rl train: {tmp_path}/run holds a run with {other}"
    killed = counting_request(tmp_path / "killed", trainer="counting:fails_at=1,killed=true")
    line = refusal_of(rl.train, killed, 0, Progress(quiet=True))
    assert line.startswith("rl train: the trainer was killed by signal 9 after step 0: it said nothing (")
    assert line.endswith("no checkpoint was saved yet")


# The files of a run's folder, and its lock


def test_a_runs_hours_go_on_from_earlier_commands_also_where_steps_are_made_again(tmp_path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(training.time, "monotonic", lambda: now)
    for command in (1, 2):
        log = MetricsLog(tmp_path / "metrics.jsonl")  # resumed from no checkpoint: its steps are made again
        for step in (1, 2):
            now += 1800
            log.append(step, {})
        assert hours_spent(tmp_path) == command
        now += 7200  # killed; what was not logged does not count
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert [log.is_over(Settings(hours=hours)) for hours in (None, 2.5, 2)] == [False, False, True]


def test_hours_are_instead_of_the_tasks_steps_and_end_a_run_that_goes_on_with_more(tmp_path):
    assert rl.settings(TrainRequest(task="x", settings={"hours": "0.5"}), {"steps": 9}).steps is None
    assert rl.settings(TrainRequest(task="x", settings={"hours": "0.5", "steps": "3"}), {"steps": 9}).steps == 3
    request = counting_request(tmp_path, out=tmp_path / "run", settings={"batch": "4", "mini_batch": "4", "hours": "2"})
    messages = io.StringIO()
    rl.prepare(request, 0)
    (tmp_path / "run" / "hours.txt").write_text("2.1")
    assert rl.train(request, 0, Progress(messages))["steps"] == 0
    assert "seed 0: its 2 hours were over after step 0; --set hours=H goes on" in messages.getvalue()
    run = rl.prepare(replace(request, settings={**request.settings, "hours": "2.5"}), 0).run
    assert (rl.outlook(run, 0, 2.1).seconds, rl.expected_steps(run)) == (pytest.approx(0.4 * 3600), None)
    write_json_lines(run.metrics, [{"step": step, "step_s": 100} for step in (1, 2, 3)])
    assert rl.expected_steps(run) == 3 + 15  # of 1,440 s
    assert rl.expected_steps(replace(run, settings=replace(run.settings, steps=7))) == 7


def test_the_disk_that_checkpoints_take_is_known_before_and_a_run_that_cannot_fit_is_refused(tmp_path, monkeypatch):
    run = game24_run(tmp_path / "run", 8, 4, model="tiny24-weak", bonus="none", trainer="verl", settings=Settings())
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: SimpleNamespace(free=100 * WEAK))

    def remark(steps: int | None, runs: int = 1, **settings) -> str:
        changed = replace(run, settings=replace(run.settings, save_every=5, **settings))
        return preflight.disk(changed, (4, 8), steps, runs)

    assert f"20 in 100 steps: {96 * WEAK / 1e6:.1f} MB to write; {WEAK / 1e4:.1f} MB free" in remark(100)
    assert "one every 5 steps, how many is not known before the first step" in remark(None)  # hours end it
    for changed in ({"steps": 100, "keep": 3}, {"steps": 100, "runs": 2}, {"steps": 200}):
        line = refusal_of(remark, **changed)
        assert line.startswith("rl train: the checkpoints do not fit on the disk: a checkpoint is")
    (run.checkpoints / "global_step_5").mkdir(parents=True)
    (run.checkpoints / "global_step_5" / "model.pt").write_bytes(bytes(12 * WEAK))
    assert "20 in 100 steps" in remark(100, keep=3)  # what it has saved is not to be written again


def test_a_training_without_any_correct_rollout_says_that_nothing_was_learned():
    assert rl.no_signal([{"step": 0}, {"step": 1, "all_wrong": 1.0}, {"step": 2, "all_wrong": 0.9}]) == ""
    assert rl.no_signal([{"step": 0}]) == ""
    line = rl.no_signal([{"step": 0}, {"step": 1, "all_wrong": 1.0}, {"step": 2, "all_wrong": 1.0}])
    assert line.startswith("no rollout of its 2 steps was correct, so nothing was learned: a stronger --model")


def test_a_folder_in_use_is_refused_with_the_process_that_has_it(tmp_path):
    def enter():
        with rl.locked(tmp_path / "new") as descriptor:
            assert os.fstat(descriptor).st_ino == (tmp_path / "new" / "lock").stat().st_ino

    with rl.locked(tmp_path / "new"):
        holder = f"{tmp_path / 'new'} is in use by process {os.getpid()} on {platform.node()}: wait for it"
        assert refusal_of(enter).startswith(f"rl train: {holder}")
    enter()


# What a machine must have

WEAK = 942_976  # parameters of tiny24-weak


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The one repository of a hub: its folder, of which nothing is in the cache."""
    folder = tmp_path / "snapshot"
    folder.mkdir()

    def file(model: str, name: str, revision: str, local: bool):
        if not (folder / name).is_file():
            raise OSError(f"{model} has no {name}")
        return folder / name

    monkeypatch.setattr(preflight, "hub_is_out_of_reach", lambda: False)
    monkeypatch.setattr(preflight, "hub_file", file)
    monkeypatch.setattr(preflight, "_cached", lambda model: None)
    return folder


def test_a_models_size_is_known_by_its_weights_its_config_or_its_name(hub):
    model = embedded("tiny24-weak")
    assert preflight.size_of(Location("tiny24-weak", model)).parameters == WEAK
    config = json.loads((model / "config.json").read_text())
    (hub / "config.json").write_text(json.dumps(config))
    size = preflight.size_of(Location("lab/weak", None))
    assert (size.parameters, size.to_fetch, size.is_sure) == (WEAK, 2 * WEAK, True)
    assert size.known == " (by its config.json, lab/weak is not on this disk)"
    (hub / "config.json").write_text(json.dumps(config | {"model_type": "nobody-knows-it"}))
    size = preflight.size_of(Location("lab/Weak-1.5B-Instruct", None))
    assert (size.parameters, size.is_sure) == (1_500_000_000, False)


def test_only_gpus_in_sight_count(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '0, GPU-aa, 81920\\n1, GPU-bb, 40960\\n'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for visible, gib in ((None, [80, 40]), ("1", [40]), ("GPU-bb,0", [40, 80]), ("", []), ("MIG-x", [80])):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert preflight.gpu_memory() == gib


def test_memory_that_is_too_little_refuses_and_a_guess_only_remarks(hub, tmp_path, monkeypatch):
    shutil.copy(embedded("tiny24-weak") / "config.json", hub)
    monkeypatch.setattr(preflight, "gpu_memory", lambda: [0.001] * 8)
    run = game24_run(tmp_path / "run", 2, 2, model="lab/weak", bonus="none", trainer="verl", settings=Settings())
    assert "0.00 B parameters (by its config.json" in refusal_of(preflight.several_gpus, run)
    overrides = ("actor_rollout_ref.actor.fsdp_config.param_offload=True",)
    remark = preflight.several_gpus(replace(run, overrides=overrides))[0]
    assert remark.startswith("memory: it may be too little: verl: the model does not fit")
    assert remark.endswith(f"; {overrides[0]} may change that")
    (hub / "config.json").unlink()
    assert "(by its name alone" in preflight.several_gpus(replace(run, model="lab/weak-7b"))[0]
    nothing = preflight.several_gpus(replace(run, model="lab/weak"))
    assert nothing == ["memory: not estimated, the model's size is not known, lab/weak is not on this disk"]
