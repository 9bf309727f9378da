"""`harness rl train` and `rl eval` from end to end, with a third party's trainer in place of a heavy one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.paths import SUPPORT
from support.processes import harness_command, run_to_end, wait_for

from harness import HarnessError
from harness.records import Problem
from harness.scoring.metrics import random_pass_at_k
from harness.training import Settings, TrainingRun
from harness_plugins.figures import drawing as plots
from harness_plugins.figures.request import Request
from harness_plugins.rl import evaluation as rl_eval
from harness_plugins.rl import tables as rl_tables
from harness_plugins.rl import training_run as rl
from harness_plugins.rl.run_files import read_metrics, read_problems, read_run
from harness_plugins.rl.shaping import Grader

PLUGIN = SUPPORT / "counting_trainer.py"
COMMAND = harness_command("rl")
TRAIN = ["train", "--task", "game24", "--model", "tiny24-weak", "--plugin", str(PLUGIN)]
SMALL = ["--set", "batch=4", "--set", "mini_batch=4", "--set", "steps=6", "--limit", "8"]


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_to_end([*COMMAND, *arguments], cwd=cwd, timeout=300)


def trained(cwd: Path, *arguments: object, trainer: str = "counting") -> subprocess.CompletedProcess[str]:
    return command(*TRAIN, "--trainer", trainer, *SMALL, *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two seeds, trained to the end."""
    cwd = tmp_path_factory.mktemp("rl")
    done = trained(cwd, "--seeds", 1, 2, "--json")
    assert done.returncode == 0, done.stderr
    return cwd, json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def evaluated(finished):
    cwd, rows, _ = finished
    options = ["--n", 16, "--limit", 6, "--max-tokens", 64, "--out", "eval"]
    done = command("eval", *(row["folder"] for row in rows), *options, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd, json.loads(done.stdout), rl_eval.read(cwd / "eval")


# train


def test_a_training_of_hours_is_not_begun_where_nobody_can_be_asked(tmp_path):
    asked = [*TRAIN, "--trainer", "counting", *SMALL[:4], *SMALL[6:]]  # 4 prompts with 8 rollouts, no steps
    done = command(*asked, "--set", "steps=700", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: rl train: not begun, since it takes 22,400 responses of up to" in done.stderr
    assert "--set steps=N and --set batch=N make it shorter" in done.stderr
    assert not list(tmp_path.rglob("log.txt"))
    several = command(*asked, "--set", "steps=300", "--seeds", "1", "2", "3", cwd=tmp_path)  # 9,600 each
    assert "since it takes 28,800 responses" in several.stderr


def test_an_evaluation_of_hours_is_not_begun_where_nobody_can_be_asked(finished):
    cwd, rows, _ = finished
    before = list((cwd / "runs" / "pool").rglob("*.parquet"))
    done = command("eval", rows[0]["folder"], "--n", 200_000, "--max-tokens", 4, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert "error: rl eval: not begun, since it takes at most about" in done.stderr
    assert list((cwd / "runs" / "pool").rglob("*.parquet")) == before


def test_each_seed_is_a_run_in_a_folder_of_its_own(finished):
    cwd, rows, said = finished
    assert [(row["seed"], row["steps"], row["best_step"], row["dev_pass_at_1"]) for row in rows] == [
        (1, 6, 6, 0.6),
        (2, 6, 6, 0.6),
    ]
    for row in rows:
        folder = Path(row["folder"])
        assert folder.parent == cwd / "runs" / "rl"
        assert folder.name.startswith(f"game24-tiny24-weak-repexp-counting-s{row['seed']}-")
        assert (folder / "log.txt").read_text() == "counted\n"
        assert len(read_metrics(folder / "metrics.jsonl")) == 6
    assert "counts to 6" in said
    assert "step 4: reward 0.400, bonus 0.01 (spread 0.001), gated 50 %, dev pass@1 40 %, 2,400 steps/h" in said


def test_the_folder_holds_the_problems_as_the_trainer_is_to_ask_them(finished):
    run = read_run(Path(finished[1][0]["folder"]))
    assert set(run.problems) == {"train", "dev"}
    asked = read_problems(run.problems["train"])
    assert len(asked) == 8
    problem, messages = asked[0]
    assert ", ".join(problem.prompt.split()) in messages[0]["content"]


def test_a_finished_run_is_not_trained_again_and_goes_on_when_asked(finished):
    cwd, rows, _ = finished
    again = trained(cwd, "--seed", 1, "--json")
    assert "all 6 steps are done" in again.stderr
    assert json.loads(again.stdout)[0]["folder"] == rows[0]["folder"]


def test_a_run_that_breaks_is_one_line_and_the_same_command_goes_on(tmp_path):
    arguments = ("--out", tmp_path / "run")
    broken = trained(tmp_path, *arguments, trainer="counting:fails_at=5")
    assert broken.returncode == 2
    error = broken.stderr.splitlines()[-1]
    assert error.startswith(
        "error: rl train: the trainer ended with exit status 1 after step 4: ValueError: the loss is"
    )
    assert error.endswith("the same command goes on from step 4")
    resumed = trained(tmp_path, *arguments, trainer="counting:fails_at=5")
    assert resumed.returncode == 0, resumed.stderr
    assert "going on after step 4" in resumed.stderr
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_another_run_in_the_same_folder_is_refused(tmp_path):
    assert trained(tmp_path, "--out", tmp_path / "run").returncode == 0
    other = trained(tmp_path, "--out", tmp_path / "run", "--bonus", "none")
    assert other.returncode == 2
    assert "holds a run with another bonus ('repexp', now 'none'): give another --out" in other.stderr


def test_ctrl_c_ends_the_trainer_and_says_how_to_go_on(tmp_path):
    child = subprocess.Popen(slowly(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(read_metrics(tmp_path / "run" / "metrics.jsonl")) >= 3)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=240)
    assert child.returncode == 130
    assert "interrupted: the trainer was stopped; the same command goes on" in said
    assert not running(tmp_path / "run")


def test_a_killed_trainer_says_its_signal(tmp_path):
    child = subprocess.Popen(slowly(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(read_metrics(tmp_path / "run" / "metrics.jsonl")) >= 1)
    [pid] = running(tmp_path / "run")
    os.kill(pid, signal.SIGKILL)
    _, said = child.communicate(timeout=240)
    assert child.returncode == 2
    assert "the trainer was killed by signal 9 after step" in said


def test_kill_9_ends_the_trainer_and_the_same_command_goes_on(tmp_path):
    folder = tmp_path / "run"
    child = subprocess.Popen(slowly(tmp_path), cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(read_metrics(folder / "metrics.jsonl")) >= 3)
    [trainer] = running(folder)
    child.send_signal(signal.SIGKILL)
    child.wait()
    resumed = run_to_end(slowly(tmp_path), cwd=tmp_path, timeout=300)  # at once
    assert resumed.returncode == 0, resumed.stderr
    assert "going on after step" in resumed.stderr
    assert [line["step"] for line in read_metrics(folder / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert not Path(f"/proc/{trainer}").exists()
    assert not running(folder)


def test_a_folder_that_is_being_trained_in_is_refused_with_the_process_that_has_it(tmp_path):
    child = subprocess.Popen(slowly(tmp_path, 600), cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: running(tmp_path / "run"))
        second = run_to_end(slowly(tmp_path, 600), cwd=tmp_path, timeout=300)
        assert second.returncode == 2
        [line] = second.stderr.splitlines()
        assert line.startswith(f"error: rl train: {tmp_path / 'run'} is in use by process {child.pid} on ")
    finally:
        child.send_signal(signal.SIGINT)
        child.wait()
    assert child.returncode == 130


def slowly(folder: Path, pause_s: float = 0.2) -> list[str]:
    return [*COMMAND, *TRAIN, "--trainer", f"counting:pause_s={pause_s}", *SMALL, "--out", str(folder / "run")]


def running(folder: Path) -> list[int]:
    """The processes that count in that folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            continue
        if arguments[1:] == [str(PLUGIN), str(folder)]:
            found.append(int(path.parent.name))
    return found


def test_a_dry_run_prints_the_configuration_and_the_command_and_starts_nothing(tmp_path):
    done = trained(tmp_path, "--dry-run", "optim.lr=1", "+model.x=2", trainer="counting:fails_at=3")
    assert done.returncode == 0, done.stderr
    assert "fails_at: 3\n" in done.stdout
    assert "overrides: ['optim.lr=1', '+model.x=2']" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"# COUNTING=yes {sys.executable}")
    assert not list(tmp_path.rglob("metrics.jsonl"))


def test_what_the_machine_lacks_is_said_before_the_start_and_after_the_configuration(harness, tmp_path):
    command = ["rl", *TRAIN, "--trainer", "counting", *SMALL, "--store", tmp_path, "gpus=8"]
    for given in ([], ["--dry-run"]):
        done = harness(*command, *given)
        assert done.code == 2
        assert done.err.splitlines()[-1] == "error: counting: this machine has no 8 GPUs"
        assert ("overrides: ['gpus=8']" in done.out) == bool(given)
    assert not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "bach=3"], "rl: no setting 'bach' (did you mean 'batch'?"),
        (["--set", "rollouts=1"], "rl: rollouts must be at least 2"),
        (["--set", "rollouts=many"], "rl: rollouts input should be a valid integer"),
        (["--set", "batch"], "rl: --set is written KEY=VALUE, got 'batch'"),
        (["--bonus", "repexp:lam=0"], "repexp: lam must be > 0, got 0"),
        (["--bonus", "novelty"], "unknown bonus 'novelty'"),
        (["--trainer", "verls"], "unknown trainer 'verls' (did you mean 'verl'?"),
        (["--data", "nope=x"], "--data is FILE or SPLIT=FILE"),
        (["--seeds", "1", "1"], "a seed is given twice: 1 1"),
        (["optimiser"], "the trainer's own options are written key=value, got 'optimiser'"),
        (["--limit", "3"], "3 problems to train on, fewer than a batch of 4: --set batch=N"),
        (["--task", "aime24"], "task 'aime24' says no train split to train with"),
    ],
)
def test_what_is_asked_wrongly_is_one_clear_line(harness, tmp_path, arguments, message):
    done = harness("rl", *TRAIN, "--trainer", "counting", *SMALL, "--store", tmp_path, *arguments)
    assert done.code == 2
    [line] = done.err.strip().splitlines()
    assert message in line


def test_a_tasks_own_bonus_settings_hold_unless_others_are_given(shared_data, tmp_path):
    files = {"train": "dapo-math-17k.parquet", "dev": "aime24_qwq.jsonl"}
    data = {split: str(shared_data / "tasks" / name) for split, name in files.items()}
    request = {"task": "dapo-aime", "trainer": "counting", "data": data, "plugin_files": [PLUGIN], "store": tmp_path}
    prepared = rl.prepare(rl.TrainRequest(**request), 0).run
    assert prepared.bonus == "repexp:dim=128"
    assert (prepared.settings.batch, prepared.settings.max_response, prepared.settings.rollouts) == (512, 8192, 8)
    assert prepared.settings.steps == 1000 * (4096 // 512)
    assert rl.prepare(rl.TrainRequest(**request, bonus="repexp:dim=16"), 0).run.bonus == "repexp:dim=16"
    assert rl.prepare(rl.TrainRequest(**request, bonus="none"), 0).run.bonus == "none"


@pytest.mark.parametrize("task", ["gsm8k"])
def test_the_papers_settings_are_the_defaults(shared_data, tmp_path, task):
    data = {split: str(shared_data / "tasks" / f"gsm8k_{split}.jsonl") for split in ("train", "test")}
    request = rl.TrainRequest(
        task=task,
        trainer="counting",
        data={"train": data["train"], "dev": data["test"]},
        plugin_files=[PLUGIN],
        store=tmp_path,
    )
    run = rl.prepare(request, 3).run
    assert (run.model, run.bonus, run.seed) == ("Qwen/Qwen2.5-7B-Instruct", "repexp", 3)
    assert [len(read_problems(run.problems[split])) for split in ("train", "dev")] == [7473, 512]
    settings = run.settings
    assert (settings.learning_rate, settings.batch, settings.mini_batch, settings.save_every) == (1e-6, 1024, 256, 20)


def test_how_a_task_is_trained_on_is_no_part_of_its_verdicts_key():
    from harness.plugin_system.component import source_hash
    from harness_tasks.data import rl_settings
    from harness_tasks.game24 import Game24

    before = source_hash(Game24())
    assert Game24().rl == rl_settings.GAME24
    assert source_hash(Game24()) == before


# the reward


def prepared(tmp_path, task, data=None, **options):
    request = rl.TrainRequest(
        task=task,
        trainer="counting",
        model="tiny24-weak",
        data={"": str(data)} if data else {},
        settings={"batch": "4", "mini_batch": "4", "steps": "6"},
        limit=8,
        store=tmp_path,
        plugin_files=(PLUGIN,),
        **options,
    )
    return rl.prepare(request, 0)


@pytest.fixture
def sums(tmp_path, monkeypatch):
    """A training set of GSM8K's form, of which the answers are 0 to 7."""
    monkeypatch.setattr("harness_tasks.gsm8k.DEV", 4)
    rows = [{"question": f"How many is {i}?", "answer": f"It is {i}. #### {i}"} for i in range(8)]
    return write_json_lines(tmp_path / "sums.jsonl", rows)


def graded_by(run, *responses):
    return Grader(run).rewards(Problem("train-5", "How many is 5?", "5"), responses)


def test_the_papers_tasks_are_rewarded_strictly_unless_asked_otherwise_and_never_by_a_fallback(tmp_path, sums):
    strict, lenient = (prepared(tmp_path, "gsm8k", sums, reward=reward) for reward in (None, "lenient"))
    assert (strict.run.reward, lenient.run.reward) == ("strict", "lenient")
    assert strict.run.folder != lenient.run.folder
    assert strict.run.folder.name.startswith("gsm8k-tiny24-weak-")
    assert read_run(strict.run.folder).reward == "strict"
    assert strict.run.task == "gsm8k:fallback=no"
    assert strict.remarks[0] == (
        "reward: strict, the second grader of gsm8k:fallback=no; --reward lenient takes its verifier"
    )
    responses = ("I think 5", "The answer is 5", r"so \boxed{5}", "#### $5", "#### 5")
    assert graded_by(strict.run, *responses) == [0, 0, 0, 0, 1]
    assert graded_by(lenient.run, *responses) == [0, 0, 1, 1, 1]
    for one in (strict, lenient):
        assert rl._row(one, 0.0)["reward"] == one.run.reward


@pytest.mark.parametrize("task", ["gsm8k", "math", "dapo-aime"])
def test_the_prompt_asks_for_the_form_that_the_strict_grader_wants(task):
    grader = Grader(TrainingRun(Path(), task, "model", "none", "trl", 0, Settings(), {}, reward="strict"))
    assert grader.task.rl["reward"] == "strict"
    problem = Problem("0", "How many?", reference="5")
    before, form = {"####": ("####", "#### 5"), "boxed": (r"\boxed{", r"\boxed{5}")}[grader.task.strict]
    assert before in grader.task.messages(problem)[-1]["content"]
    assert grader.rewards(problem, [f"Two and three make five. {form}", "Two and three make 5."]) == [1, 0]


def test_a_task_with_one_grader_keeps_it_and_says_so(tmp_path):
    one = prepared(tmp_path, "game24")
    assert one.run.reward == "verifier"
    assert one.remarks[0] == "reward: the verifier of game24, its only grader"
    with pytest.raises(HarnessError, match="has one grader, and no stricter one: leave --reward strict out"):
        prepared(tmp_path, "game24", reward="strict")


def test_a_run_that_recorded_no_reward_goes_on_only_where_there_is_but_one(tmp_path, sums):
    for name, task, data in (("old24", "game24", None), ("old8k", "gsm8k", sums)):
        run = prepared(tmp_path, task, data, out=tmp_path / name).run
        kept = json.loads((run.folder / "run.json").read_text())
        del kept["reward"]
        (run.folder / "run.json").write_text(json.dumps(kept))
        assert read_run(run.folder).reward == "unrecorded"
    assert prepared(tmp_path, "game24", out=tmp_path / "old24").run.reward == "verifier"
    with pytest.raises(HarnessError, match=r"holds a run with another reward \('unrecorded', now 'strict'\)"):
        prepared(tmp_path, "gsm8k", sums, out=tmp_path / "old8k")


def test_a_wrong_reward_is_one_clear_line(harness, tmp_path):
    done = harness("rl", "train", "--task", "gsm8k", "--reward", "kind", "--store", tmp_path)
    assert (done.code, done.err) == (2, "error: rl: --reward must be strict or lenient, got 'kind'\n")


def test_an_evaluation_is_shown_by_both_graders_the_strict_one_first(capsys):
    policies = [("base", [4, 2], [0, 2]), ("none", [4, 4], [4, 0])]
    found = {
        **{"task": "gsm8k", "split": "test", "model": "m", "reward": "strict", "n": 4, "problems": ["a", "b"]},
        "policies": [{"bonus": bonus, "seed": 1, "c": c, "c_strict": strict} for bonus, c, strict in policies],
    }
    rows = rl_eval.rows(found)
    assert [(row["grader"], row["bonus"], row["pass_at_k"]["1"]) for row in rows] == [
        ("strict", "base", 0.25),
        ("strict", "none", 0.5),
        ("lenient", "base", 0.75),
        ("lenient", "none", 1.0),
    ]
    assert rl_eval.curves(found)[1].mean[0] == 0.5
    rl_tables.evaluated(rows, as_json=False)
    shown = capsys.readouterr().out
    assert shown.index("graded strictly") < shown.index("graded leniently")


def test_a_tasks_strict_grader_is_asked_about_every_policy(tmp_path):
    plugin = tmp_path / "strict24.py"
    plugin.write_text(STRICT24)
    options = ("--task", "strict24", "--plugin", plugin, "--reward", "strict", "--out", tmp_path / "run")
    done = trained(tmp_path, *options)
    assert done.returncode == 0, done.stderr
    few = ("--n", 8, "--limit", 4, "--max-tokens", 64, "--no-base", "--no-likelihood")
    done = command("eval", tmp_path / "run", *few, "--out", tmp_path, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = rl_eval.read(tmp_path)
    [policy] = found["policies"]
    assert (found["reward"], policy["c_strict"]) == ("strict", [0, 0, 0, 0])
    assert sum(policy["c"]) > 0
    assert [row["grader"] for row in json.loads(done.stdout)] == ["strict", "lenient"]


STRICT24 = """
from harness import hookimpl, wrong
from harness_tasks.game24 import Game24


class Strict24(Game24):
    def audit(self, problem, response):
        return wrong("nobody is that strict")


@hookimpl
def register_tasks(register):
    register("strict24", Strict24)
"""


# eval


def test_the_checkpoint_is_the_one_with_the_best_dev_pass_at_1(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    figures = [(1, None), (2, 0.3), (4, 0.5), (6, 0.5)]
    lines = [{"step": step, **({} if dev is None else {"dev_pass_at_1": dev})} for step, dev in figures]
    write_json_lines(metrics, lines)

    class Run:
        pass

    run = Run()
    run.metrics = metrics
    assert rl.best_step(run, [2, 4, 6]) == (4, 0.5)  # of two the earlier one
    assert rl.best_step(run, [2, 6]) == (6, 0.5)
    assert rl.best_step(run, [1]) is None


def test_an_evaluation_holds_the_counts_of_every_policy(evaluated):
    _, rows, found = evaluated
    assert [(policy["bonus"], policy["seed"], policy["step"]) for policy in found["policies"]] == [
        ("base", None, None),
        ("repexp", 1, 6),
        ("repexp", 2, 6),
    ]
    assert all(len(policy["c"]) == 6 for policy in found["policies"])
    assert [(row["bonus"], row["seeds"]) for row in rows] == [("base", 1), ("repexp", 2)]
    # Both seeds' checkpoints are the same model here, drawn from with the same seed.
    assert found["policies"][1]["c"] == found["policies"][2]["c"]
    assert sum(found["policies"][1]["c"]) > sum(found["policies"][0]["c"])  # tiny24 against tiny24-weak


def test_pass_at_k_is_the_unbiased_estimator_averaged_over_problems_then_seeds(evaluated):
    _, rows, found = evaluated
    counts = np.array(found["policies"][0]["c"])
    for k, value in rows[0]["pass_at_k"].items():
        assert value == pytest.approx(float(random_pass_at_k(np.full(6, 16), counts, int(k)).mean()))


def test_likelihoods_are_those_of_one_response_a_question_under_the_initial_model(evaluated):
    _, _, found = evaluated
    base = found["policies"][0]["likelihoods"]
    assert len(base) == 6
    assert all(-3 < value < 0 for value in base)


def test_an_evaluation_is_taken_up_where_it_was_left(evaluated, finished):
    cwd, rows, _ = finished
    options = ["--n", 16, "--limit", 6, "--max-tokens", 64, "--out", "eval"]
    before = (cwd / "eval" / "rl-eval.json").read_bytes()
    again = command("eval", *(row["folder"] for row in rows), *options, cwd=cwd)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("pool: reused for 6 of 6 problems") == 3
    assert (cwd / "eval" / "rl-eval.json").read_bytes() == before
    assert "pass@16" in again.stdout


def test_the_figures_are_drawn_from_the_evaluation(harness, evaluated):
    cwd, _, _ = evaluated
    for name in ("rl-passk", "rl-likelihoods"):
        done = harness("plot", name, cwd / "eval", "--out", cwd / "figures")
        assert done.code == 0, done.err
        assert (cwd / "figures" / f"{name}.png").stat().st_size > 10_000
        assert (cwd / "figures" / f"{name}.csv").read_text().count("\n") > 10


def test_an_arrow_says_where_repexp_reaches_another_methods_last_pass_at_k(tmp_path):
    counts = {"base": [[2, 0, 0, 0]], "none": [[16, 1, 0, 0], [16, 1, 0, 0]], "repexp:dim=4": [[16, 4, 2, 0]] * 2}
    policies = [{"bonus": bonus, "c": c} for bonus, each in counts.items() for c in each]
    found = {"kind": rl_eval.KIND, "schema": rl_eval.SCHEMA, "task": "game24", "split": "test", "model": "m", "n": 16}
    (tmp_path / "rl-eval.json").write_text(json.dumps(found | {"problems": list("abcd"), "policies": policies}))
    request = Request("rl-passk", folders=[tmp_path])
    rows = plots.table(request)
    reached = {row["bonus"]: row["reached_at"] for row in rows if row["k"] == 16}
    repexp = rl_eval.pass_at_k(16, [16, 4, 2, 0])
    assert reached["repexp:dim=4"] is None
    for bonus, height in (("none", 0.5), ("base", 0.25)):
        assert reached[bonus] == next(k for k in range(1, 17) if repexp[k - 1] >= height - 1e-12)
    assert all(row["reached_at"] is None for row in rows if row["k"] < 16)
    plots.write(request, tmp_path)


def test_runs_of_different_tasks_or_models_are_evaluated_apart(harness, finished, tmp_path):
    _, rows, _ = finished
    other = tmp_path / "other"
    other.mkdir()
    text = (Path(rows[0]["folder"]) / "run.json").read_text()
    (other / "run.json").write_text(text.replace('"tiny24-weak"', '"tiny24-faint"'))
    done = harness("rl", "eval", rows[0]["folder"], other)
    assert done.code == 2
    assert "has the model 'tiny24-faint'" in done.err
    assert "evaluate them apart" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--step", "3"], "has no checkpoint at step 3 (it has 2, 4, 6)"),
        (["--split", "train"], "--split must be test or dev, got 'train'"),
        (["--n", "0"], "--n must be at least 1"),
    ],
)
def test_an_evaluation_that_cannot_be_is_one_clear_line(harness, finished, arguments, message):
    _, rows, _ = finished
    done = harness("rl", "eval", rows[0]["folder"], *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_limited_evaluation_takes_problems_from_all_over_the_split():
    problems = [Problem(str(i), "") for i in range(269)]
    for limit in (1, 2, 6, 90, 268, 269, 400, None):
        places = [int(problem.id) for problem in rl_eval.spaced(problems, limit)]
        assert len(places) == len(set(places)) == min(limit or 269, 269)
        assert places == sorted(places)
        assert places[0] == 0
        assert limit == 1 or places[-1] == 268
    assert np.ptp(np.diff([int(problem.id) for problem in rl_eval.spaced(problems, 90)])) <= 1


def test_efficiency_is_how_many_times_fewer_samples_reach_the_others_last_pass_at_k():
    ahead = rl_eval.Curve("a", 1, np.linspace(0.1, 0.8, 256), None)
    behind = rl_eval.Curve("b", 1, np.linspace(0.1, 0.45, 256), None)
    k = next(k for k in range(1, 257) if ahead.mean[k - 1] >= 0.45 - 1e-12)
    assert rl_eval.efficiency(ahead, behind) == 256 / k
    assert rl_eval.efficiency(behind, ahead) is None


def test_the_standard_error_is_over_seeds():
    found = {
        "n": 4,
        "policies": [{"bonus": "x", "c": [4, 0]}, {"bonus": "x", "c": [4, 4]}, {"bonus": "base", "c": [0, 0]}],
    }
    x, base = rl_eval.curves(found)
    assert x.mean.tolist() == [0.75] * 4
    assert x.error.tolist() == pytest.approx([0.25] * 4)  # std of (0.5, 1) over the root of two
    assert base.error is None


def test_a_file_that_is_no_evaluation_is_refused(tmp_path):
    (tmp_path / "rl-eval.json").write_text('{"kind": "something"}')
    with pytest.raises(HarnessError, match="is no evaluation of schema 1"):
        rl_eval.read(tmp_path)
    with pytest.raises(HarnessError, match="is not there: `harness rl eval RUNS"):
        rl_eval.read(tmp_path / "nothing")
    (tmp_path / "rl-eval.json").write_text("{")
    with pytest.raises(HarnessError, match="cannot be read"):
        rl_eval.read(tmp_path)
