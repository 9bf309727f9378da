"""pass@k of trained models: what is sampled, what the file holds, what tables and figures show of it."""

import json
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.refusals import refusal_of
from support.stores import files_of
from support.training_runs import COUNTING, counted_run

from harness.columns.responses import responses_of
from harness.columns.store import read as read_rows
from harness.jobs.price import Outlook
from harness.scoring.metrics import random_pass_at_k
from harness.system.progress import Progress
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Environment
from harness_plugins.figures import frame
from harness_plugins.figures.request import Request
from harness_plugins.rl import evaluation as rl_eval
from harness_plugins.rl import figures
from harness_plugins.rl.commands import EvalRequest
from harness_plugins.rl.training import read_run

STRICT24 = """
from harness import correct, hookimpl, wrong
from harness_tasks.game24 import Game24


class Strict24(Game24):
    def audit(self, problem, response):
        return self.verify(problem, response) if response.count("*") else wrong("must multiply")


@hookimpl
def register_tasks(register):
    register("strict24", Strict24)
"""
CUDA = Environment(Path("python"), "vllm", "0.9", "cuda")
SMALL = {"n": 8, "limit": 4, "max_tokens": 64}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Of a task with two graders: the request, its evaluation, and how many other models were loaded each time."""
    store = tmp_path_factory.mktemp("evaluated")
    (store / "strict24.py").write_text(STRICT24)
    plugins = (COUNTING, store / "strict24.py")
    run = counted_run(store, 1, task="strict24", reward="strict", plugin_files=plugins)
    request = EvalRequest(folders=[run.folder], store=store, plugin_files=plugins, **SMALL)
    models, others, sample = weakref.WeakSet(), [], Transformers.sample

    def sampled(engine, request):
        finished = sample(engine, request)
        models.add(engine._checkpoint.model)
        others.append(len(models) - 1)
        return finished

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transformers, "sample", sampled)
        return request, rl_eval.evaluate(request, Progress(quiet=True)), others


def test_an_evaluation_holds_the_counts_of_every_policy_by_both_graders_one_model_loaded_at_a_time(evaluated):
    request, evaluation, others = evaluated
    base, trained = policies = evaluation["policies"]
    columns = ("bonus", "trainer", "seed", "step", "dev_pass_at_1")
    about = [tuple(policy[name] for name in columns) for policy in policies]
    assert about == [("base", *[None] * 4), ("repexp", "counting", 1, 6, 0.6)]
    assert (evaluation["task"], evaluation["split"], evaluation["reward"]) == ("strict24", "test", "strict")
    assert len(evaluation["problems"]) == len(base["c"]) == len(base["c_strict"]) == 4
    assert sum(trained["c"]) > sum(base["c"])  # tiny24 against tiny24-weak
    assert 0 < sum(trained["c_strict"]) < sum(trained["c"])
    assert others == [0] * 8  # of 2 policies and 4 problems, each a group of its own
    at_2, folder = rl_eval._chosen(replace(request, step=2), run := read_run(request.folders[0]), Progress(quiet=True))
    assert (at_2["step"], at_2["dev_pass_at_1"], folder) == (2, 0.2, run.checkpoints / "step-2")
    # Likelihoods are those of the first response to a question under the initial model, as that model sampled it.
    files = [path for path in files_of(request.store, "responses") if base["pool"] in str(path)]
    pools = [responses_of(read_rows(path)) for path in files]
    expected = sorted(pool.logprobs[0] / pool.lengths[0] for pool in pools)
    assert sorted(base["likelihoods"]) == pytest.approx(expected, abs=1e-4)
    assert len(expected) == 4
    assert trained["likelihoods"] != base["likelihoods"]


def test_an_evaluation_is_taken_up_where_it_was_left_and_one_of_hours_not_begun_unasked(
    harness, evaluated, monkeypatch
):
    request, evaluation, _ = evaluated
    options = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
    options += [word for file in request.plugin_files for word in ("--plugin", file)]
    done = harness("rl", "eval", *request.folders, *options, "--store", request.store)
    assert done.code == 0, done.err
    assert done.err.count("pool: reused for 4 of 4 problems") == 2
    assert rl_eval.read(request.store / "rl") == evaluation
    assert done.out.index("graded strictly") < done.out.index("graded leniently")
    assert "pass@8" in done.out
    monkeypatch.setattr(rl_eval, "sampling", lambda plan, problems, count: Outlook(25 * 60 * len(problems)))
    done = harness("rl", "eval", *request.folders, *options, "--limit", 2, "--seed", 9, "--store", request.store)
    assert done.code == 2, done.err
    assert "error: rl eval: not begun, since it takes up to about 1:40:00" in done.err  # of 2 problems, 2 models


@pytest.fixture
def told(monkeypatch):
    """A progress, and what it is to say."""
    progress, lines = Progress(), []
    monkeypatch.setattr(progress, "say", lines.append)
    return progress, lines


def test_a_dry_run_counts_what_is_there_and_what_is_to_make_and_writes_nothing(evaluated, tmp_path, told):
    (request, *_), (progress, lines) = evaluated, told
    columns = ("bonus", "seed", "step", "there", "to_make")
    rows = [tuple(row[name] for name in columns) for row in rl_eval.rehearse(request, progress)]
    assert rows == [("base", None, None, 32, 0), ("repexp", 1, 6, 32, 0)]
    assert lines[-2:] == ["time: none, all is sampled", "disk: nothing is to be stored"]
    (unexported := request.folders[0] / "unexported").touch()
    before = sorted(request.store.rglob("*"))
    more = rl_eval.rehearse(replace(request, n=16, store=tmp_path), progress)
    expected = [("tiny24-weak", 0, 64), ("to be exported", 0, 64)]
    assert [(row["model"], row["there"], row["to_make"]) for row in more] == expected
    assert "time: 128 responses of up to 8,192 tokens in all, whose time is not known here" in lines
    assert lines[-1] == "disk: 1 checkpoints are to be exported beside themselves, 1.9 MB each"
    assert any("of vectors" in line and "free)" in line for line in lines)
    assert sorted(request.store.rglob("*")) == before
    assert not list(tmp_path.iterdir())
    unexported.unlink()


def test_a_model_that_the_engine_cannot_hold_is_refused_before_it_is_loaded(evaluated, tmp_path, monkeypatch):
    request = replace(evaluated[0], store=tmp_path)
    monkeypatch.setattr("harness_plugins.rl.preflight.psutil.virtual_memory", lambda: (3 * 942_976, 1))
    line = refusal_of(rl_eval.evaluate, request, Progress(quiet=True))
    assert line.startswith("rl eval: the model does not fit: the weights need 0.0 GiB, activations aside; this machine")
    vllm = replace(request, engine="vllm:tensor_parallel=4,python=" + sys.executable)
    monkeypatch.setattr("harness_plugins.engines.vllm.engine.environment", lambda python: CUDA)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert "takes 4 GPUs (tensor_parallel), 2 are in sight" in refusal_of(rl_eval.evaluate, vllm, Progress(quiet=True))


def test_vllm_samples_by_default_where_it_and_a_gpu_are(monkeypatch, told):
    progress, lines = told
    for gpus, python, device, engine in (
        (2, sys.executable, "cuda", "vllm"), (2, sys.executable, "cpu", "transformers"),
        (2, "nowhere", "cuda", "transformers"), (0, sys.executable, "cuda", "transformers"),
    ):  # fmt: skip
        monkeypatch.setattr(rl_eval, "gpus_in_sight", lambda gpus=gpus: gpus)
        monkeypatch.setenv("HARNESS_VLLM_PYTHON", python)
        monkeypatch.setattr(rl_eval, "environment", lambda python, device=device: replace(CUDA, device=device))
        assert rl_eval._default_engine(progress) == engine
    assert lines[0] == "rl eval: transformers samples, not vLLM (the installed one is for CPUs)"
    assert "nowhere is not there" in lines[1]


def test_a_limit_takes_problems_from_all_over_the_split():
    for limit in (1, 6, 90, 400, None):
        places = rl_eval.spaced(range(269), limit)
        assert places == sorted({*places})
        assert (len(places), places[0], places[-1]) == (min(limit or 269, 269), 0, 0 if limit == 1 else 268)


# What tables and figures show


def evaluation_of(counts, n, problems, **more):
    policies = [{"bonus": bonus, "c": c} for bonus, each in counts.items() for c in each]
    about = {"kind": rl_eval.KIND, "schema": rl_eval.SCHEMA, "task": "game24", "split": "test", "model": "m"}
    return {**about, "reward": "verifier", "n": n, "problems": list(problems), "policies": policies, **more}


def test_rows_hold_the_unbiased_estimator_averaged_over_problems_then_seeds_and_gains_which_tables_show(capsys):
    counts = {"base": [[8, 7, 5, 6]], "none": [[10, 8, 9, 9], [10, 9, 9, 10]]}
    base, none = rows = rl_eval.rows(evaluation_of(counts, 16, "abcd"))
    assert (none["grader"], none["bonus"], none["seeds"], base["seeds"]) == ("verifier", "none", 2, 1)
    assert list(none["pass_at_k"]) == ["1", "2", "4", "8", "16"]
    for k, value in none["pass_at_k"].items():
        seeds = [random_pass_at_k(np.full(4, 16), np.array(c), int(k)).mean() for c in counts["none"]]
        assert value == pytest.approx(np.mean(seeds))
        assert none["standard_error"][k] == pytest.approx(abs(seeds[0] - seeds[1]) / 2)
    assert base["standard_error"] is None
    at_1 = {bonus: np.array(each)[:, :, None] / 16 for bonus, each in counts.items()}
    assert none["pass_at_k_ci"]["1"] == rl_eval.intervals(at_1["none"])[0]
    assert base["gain_over"]["none"]["1"] == pytest.approx((6.5 - 9.25) / 16)
    assert base["gain_over_ci"]["none"]["1"] == rl_eval.intervals(at_1["base"], at_1["none"])[0]
    figures.print_table(rows)
    levels, gains = capsys.readouterr().out.split("minus GRPO")
    assert f"57.8±{50 * np.ptp(none['pass_at_k_ci']['1']):.1f}" in levels
    assert "100.0 [-]" in levels  # pass@16
    assert f"-17.2±{50 * np.ptp(base['gain_over_ci']['none']['1']):.1f}" in gains


def test_the_strict_grader_comes_first_and_what_solves_nothing_is_compared_with_nothing(capsys):
    counts = {"base": ([4, 2], [0, 2]), "none": ([4, 4], [4, 0]), "repexp": ([0, 0], [0, 0])}
    policies = [{"bonus": bonus, "seed": 1, "c": c, "c_strict": strict} for bonus, (c, strict) in counts.items()]
    rows = rl_eval.rows(evaluation_of({}, 4, "ab", policies=policies))
    assert [(row["grader"], row["bonus"], row["pass_at_k"]["1"]) for row in rows] == [
        *(("strict", "base", 0.25), ("strict", "none", 0.5), ("strict", "repexp", 0)),
        *(("lenient", "base", 0.75), ("lenient", "none", 1.0), ("lenient", "repexp", 0)),
    ]
    figures.print_table(rows[:3])
    printed = capsys.readouterr().out
    assert "no response was correct: repexp; nothing is compared with what solves no problem\n" in printed
    assert "samples for another's pass@4: none needs 3.0 [-] times fewer than base\n" in printed
    assert "base needs" not in printed  # it needs 3 samples for what none has at once
    assert rows[0]["fewer_samples"]["none"]["times"] == pytest.approx(1 / 3)
    assert "[-]: fewer than 5 problems" in printed


def test_a_file_that_is_no_evaluation_is_refused(tmp_path):
    for text, words in (('{"kind": "something"}', "'kind': Input should be 'diversity-harness rl"), ("{", "not JSON ")):
        (tmp_path / "rl-eval.json").write_text(text)
        assert refusal_of(rl_eval.read, tmp_path).startswith(f"rl eval: {tmp_path}/rl-eval.json: {words}")
    assert "is not there: `harness rl eval RUNS" in refusal_of(rl_eval.read, tmp_path / "nothing")


# 95 % intervals over problems and seeds


def test_an_interval_adds_the_variances_over_problems_and_seeds_of_one_policy_it_is_students_and_two_are_paired():
    two_seeds = np.array([[0.48, 0.52], [0.49, 0.53]])[:, :, None]  # (seeds, problems, columns)
    # Means of problems 0.485 and 0.525, variance 8e-4; of seeds 0.5 and 0.51, variance 5e-5.
    share = 8e-4 / 8.5e-4
    half = stats.t.ppf(0.975, 1 / (share**2 + (1 - share) ** 2)) * (8.5e-4 / 2) ** 0.5
    assert rl_eval.intervals(two_seeds) == [pytest.approx([0.505 - half, 0.505 + half], rel=1e-5)]
    own, other = np.array([0.6, 0.5, 0.4]), np.array([0.5, 0.2, 0.3])
    for values, given in ((own, (own[None, :, None],)), (own - other, (own[None, :, None], other[None, :, None]))):
        expected = stats.ttest_1samp(values, 0).confidence_interval()
        assert rl_eval.intervals(*given) == [pytest.approx(list(expected), rel=1e-5)]
    # The difference from one policy keeps the variance over the other's seeds.
    assert rl_eval.intervals(two_seeds, np.full((1, 2, 1), 0.505)) == [pytest.approx([-half, half], rel=1e-4)]


def test_an_interval_ends_where_values_end_and_what_says_nothing_is_not_known():
    assert rl_eval.intervals(np.ones((3, 4, 2))) == [None, None]  # nothing varies
    assert rl_eval.intervals(np.array([[[0.5]], [[0.7]]])) == [None]  # one problem
    high = np.array([1, 1, 1, 0.9])[None, :, None]
    [[low, end]] = rl_eval.intervals(high)
    assert (low, end) == (pytest.approx(stats.ttest_1samp(high.ravel(), 0).confidence_interval()[0]), 1)
    assert figures.in_per_cent(0.975, [low, end]) == f"97.5 [{100 * low:.1f}, 100.0]"
    assert rl_eval.intervals(np.array([0.6875, 0.8125])[None, :, None]) == [None]  # 75.0 ± 79.4


@pytest.fixture
def folder(tmp_path):
    """An evaluation of three methods: the initial model, and two of two seeds each."""
    counts = {"base": [[2, 0, 0, 0]], "none": [[16, 1, 0, 0]] * 2, "repexp:dim=4": [[16, 4, 2, 0]] * 2}
    likelihoods = {"base": [-1.0, -0.5, -2.0, None], "none": [-0.25, -0.5, -0.5, -1.0], "repexp:dim=4": [-3.0] * 4}
    evaluation = evaluation_of(counts, 16, "abcd")
    for policy in evaluation["policies"]:
        policy["likelihoods"] = likelihoods[policy["bonus"]]
    (tmp_path / "rl-eval.json").write_text(json.dumps(evaluation))
    return tmp_path


def test_an_arrow_says_where_repexp_reaches_another_methods_last_pass_at_k(folder):
    request = Request("rl-passk", folders=[folder])
    rows = frame.table(request)
    assert [row["k"] for row in rows] == [1, 2, 4, 8, 16] * 3
    assert all(row["reached_at"] is None for row in rows if row["k"] < 16)
    last = {row["bonus"]: row for row in rows if row["k"] == 16}
    assert [(row["seeds"], row["standard_error"]) for row in last.values()] == [(1, None), (2, 0), (2, 0)]
    repexp = rl_eval.curves(rl_eval.read(folder))[2].mean
    assert (last["repexp:dim=4"]["reached_at"], last["repexp:dim=4"]["times_fewer"]) == (None, None)
    # base is as high with 15 of its samples: each question has two correct ones or none
    for bonus, height, calls in (("none", 0.5, 16), ("base", 0.25, 15)):
        reached = max(1, np.interp(height, repexp, range(1, 17)))
        assert last[bonus]["reached_at"] == pytest.approx(reached, rel=1e-5)
        assert last[bonus]["times_fewer"] == pytest.approx(calls / reached, rel=1e-5)
    frame.write(request, folder)
    assert (folder / "rl-passk.png").stat().st_size > 10_000
    assert (folder / "rl-passk.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "rl-passk.csv").read_text().count("\n") > 10


def test_task_and_seed_choose_and_what_an_evaluation_has_not_is_refused(folder):
    other = folder / "other"
    other.mkdir()
    counts = (("base", None, [2, 0, 0, 0]), ("none", 1, [16, 1, 0, 0]), ("none", 2, [0, 0, 0, 0]))
    policies = [{"bonus": bonus, "seed": seed, "c": c} for bonus, seed, c in counts]
    evaluation = evaluation_of({}, 16, "abcd", task="gsm8k:fallback=no", policies=policies)
    (other / "rl-eval.json").write_text(json.dumps(evaluation))
    both = [folder, other]
    rows = frame.table(Request("rl-passk", both, task="gsm8k", seed=1))
    assert {row["evaluation"] for row in rows} == {"other"}
    at_16 = {row["bonus"]: (row["seeds"], row["pass_at_k"]) for row in rows if row["k"] == 16}
    assert at_16 == {"base": (1, 0.25), "none": (1, 0.5)}
    for options, reason in (
        ({"task": "math"}, "math"),
        ({"task": "gsm8k", "seed": 3}, "no policy of other has seed 3 (it has 1, 2)"),
        ({"seed": 1}, "has seed 1 (it has none)"),
    ):
        assert reason in refusal_of(frame.table, Request("rl-passk", both, **options))


def test_the_bins_of_likelihoods_hold_every_response_of_a_method_and_without_them_it_is_refused(folder):
    request = Request("rl-likelihoods", folders=[folder])
    rows = frame.table(request)
    for bonus, responses in (("base", 3), ("none", 8), ("repexp:dim=4", 8)):
        bins = [row for row in rows if row["bonus"] == bonus]
        assert len(bins) == 30
        assert sum(row["count"] for row in bins) == bins[0]["responses"] == responses
        assert sum(row["share"] for row in bins) == pytest.approx(1, abs=1e-5)
    assert rows[0]["mean"] == pytest.approx(-3.5 / 3, abs=1e-5)
    assert (rows[0]["from"], rows[29]["to"]) == (-3, -0.25)
    frame.write(request, folder)
    assert (folder / "rl-likelihoods.png").stat().st_size > 10_000
    file = folder / "rl-eval.json"
    file.write_text(file.read_text().replace("likelihoods", "others"))
    line = refusal_of(frame.table, request)
    assert "game24: the evaluation has no likelihoods: run `harness rl eval` with them" in line
