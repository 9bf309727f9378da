"""From a request to a run's folder, and a run followed to its end, with a third party's trainer for a heavy one."""

import fcntl
import io
import os
import platform
from dataclasses import replace
from types import SimpleNamespace

import pytest
from corpora import rl_refusals
from support.json_lines import write_json_lines
from support.processes import run_to_end
from support.refusals import refusal_of
from support.training_runs import counted_run, counting_request, game24_run

from harness.system.progress import Progress, Stage
from harness_plugins.models.location import embedded
from harness_plugins.rl import preflight, training
from harness_plugins.rl import training_run as rl
from harness_plugins.rl.checkpoints import best_step
from harness_plugins.rl.commands import TrainRequest
from harness_plugins.rl.training import MetricsLog, Settings, hours_spent, read_metrics, read_problems, read_run
from harness_tasks.dapo import DapoAime
from harness_tasks.game24 import Game24

# From a request to a run


def test_settings_that_cannot_be_are_refused():
    for wrong, line in rl_refusals.SETTINGS:
        assert refusal_of(Settings, **wrong) == line
    Settings(batch=1, mini_batch=1, rollouts=2, steps=1)


def test_settings_are_the_users_else_the_tasks_else_the_papers():
    assert rl.settings(TrainRequest(task="x"), {}) == Settings()
    assert rl.settings(TrainRequest(task="x", preset="exploring"), {}) == Settings()
    of_task = DapoAime.rl["settings"]
    own = rl.settings(TrainRequest(task="x", settings={"rollouts": "4"}), of_task)
    assert (own.rollouts, own.batch) == (4, of_task["batch"])


def test_the_users_bonus_is_before_the_presets_and_that_before_the_tasks():
    def bonus(text: str, preset: str = "paper") -> str:
        return str(rl.bonus(TrainRequest(task="x", bonus=text, preset=preset), DapoAime.rl["bonus"]))

    assert [bonus(text) for text in ("repexp:lam=1", "repexp:dim=16", "none")] == [
        *("repexp:dim=128,lam=1", "repexp:dim=16", "none")
    ]
    assert bonus("repexp", "exploring") == "repexp:dim=4,spread=0.5"
    assert bonus("repexp:spread=0.1,gate=mixed", "exploring") == "repexp:dim=4,spread=0.1,gate=mixed"
    assert bonus("unlikely", "exploring") == "unlikely"


def test_the_papers_settings_are_the_defaults_and_a_tasks_own_hold_unless_others_are_given(shared_data, tmp_path):
    def prepared(train: str, dev: str, **fields):
        data = {"train": str(shared_data / "tasks" / train), "dev": str(shared_data / "tasks" / dev)}
        return rl.prepare(counting_request(tmp_path, data=data, model=None, **fields), 3).run

    run = prepared("gsm8k_train.jsonl", "gsm8k_test.jsonl", task="gsm8k", limit=None, settings={})
    assert (run.model, run.bonus, run.seed) == ("Qwen/Qwen2.5-7B-Instruct", "repexp", 3)
    assert [len(read_problems(run.problems[split])) for split in ("train", "dev")] == [7473, 512]
    assert run.settings == Settings(steps=1000 * (7473 // 1024))
    own = {"task": "dapo-aime", "limit": 512, "settings": {"rollouts": "4"}}
    run = prepared("dapo-math-17k.parquet", "aime24_qwq.jsonl", **own)
    assert run.bonus == "repexp:dim=128"
    settings = run.settings
    assert (settings.batch, settings.max_response, settings.rollouts, settings.steps) == (512, 8192, 4, 1000)


def test_the_papers_tasks_are_rewarded_strictly_unless_asked_otherwise_and_never_by_a_fallback(tmp_path, sums):
    strict, lenient = (rl.prepare(counting_request(tmp_path, **sums, reward=reward), 0) for reward in (None, "lenient"))
    assert (strict.run.reward, lenient.run.reward) == ("strict", "lenient")
    assert strict.run.folder != lenient.run.folder
    assert strict.run.folder.name.startswith("gsm8k-tiny24-weak-")
    assert read_run(strict.run.folder).reward == "strict"
    assert strict.run.task == "gsm8k:fallback=no"
    messages = "reward: strict, the second grader of gsm8k:fallback=no; --reward lenient takes its verifier"
    other = "reward: lenient, the verifier of gsm8k:fallback=no; --reward strict takes its second grader"
    assert (strict.remarks[0], lenient.remarks[0]) == (messages, other)
    single = rl.prepare(counting_request(tmp_path), 0)
    assert (single.run.reward, single.remarks[0]) == ("verifier", "reward: the verifier of game24, its only grader")
    line = refusal_of(rl.prepare, counting_request(tmp_path, reward="strict"), 0)
    assert line == "rl: task 'game24' has one grader, and no stricter one: leave --reward strict out"


def test_more_steps_go_on_in_the_same_folder_and_another_run_there_is_refused(tmp_path):
    request = counting_request(tmp_path, out=tmp_path / "run")
    rl.prepare(request, 0)
    longer = replace(request, settings={**request.settings, "steps": "7"})
    assert rl.prepare(longer, 0).run.settings.steps == 7
    for changed, seed, what in (
        (replace(request, bonus="none"), 0, "bonus ('repexp', now 'none')"),
        (request, 1, "seed (0, now 1)"),
        (replace(request, model="tiny24"), 0, "model ('tiny24-weak', now 'tiny24')"),
    ):
        line = refusal_of(rl.prepare, changed, seed)
        assert line == f"rl train: {tmp_path}/run holds a run with another {what}: give another --out"


def test_a_run_that_breaks_or_is_killed_is_one_line_and_the_same_command_goes_on(tmp_path):
    messages, request = io.StringIO(), counting_request(tmp_path, trainer="counting:fails_at=5")
    line = refusal_of(rl.train, request, 0, Progress(messages))
    assert line.startswith("rl train: the trainer ended with exit status 1 after step 4: ValueError: the loss is not a")
    assert line.endswith("log.txt); the same command goes on from step 4")
    row = rl.train(request, 0, Progress(messages))
    assert "going on after step 4" in messages.getvalue()
    assert (row["steps"], row["checkpoints"], row["best_step"], row["dev_pass_at_1"]) == (6, 3, 6, 0.6)
    assert [step["step"] for step in read_metrics(rl.prepare(request, 0).run.metrics)] == [1, 2, 3, 4, 5, 6]
    messages.truncate(0)
    assert rl.train(request, 0, Progress(messages)) == row | {"hours": 0.0}
    assert "seed 0: all 6 steps are done; --set steps=N goes on" in messages.getvalue()
    killed = counting_request(tmp_path / "killed", trainer="counting:fails_at=1,killed=true")
    line = refusal_of(rl.train, killed, 0, Progress(quiet=True))
    assert line.startswith("rl train: the trainer was killed by signal 9 after step 0: it said nothing (")
    assert line.endswith("no checkpoint was saved yet")


def test_a_log_is_followed_by_whole_lines_and_from_its_start_when_it_is_replaced(tmp_path):
    path, messages, stage = tmp_path / "metrics.jsonl", io.StringIO(), Stage("train", 6, "steps")
    path.write_text('{"step": 1}\n')
    follower = rl.Follower(path, stage, Progress(messages))
    with path.open("a") as out:
        out.write('{"step": 2, "reward": 0.25}\n{"step": 3, "rew')
    follower()
    assert (follower.step, stage.done, messages.getvalue()) == (2, 2, "")
    new = write_json_lines(tmp_path / "new", [{"step": step, "dev_pass_at_1": step / 10} for step in (1, 2, 4)])
    new.replace(path)
    follower()
    assert (follower.step, stage.done, messages.getvalue()) == (4, 4, "dev pass@1 40 %\n")


def test_the_time_left_is_the_median_step_or_a_count_and_the_best_checkpoint_the_earlier_of_two(tmp_path):
    run = counted_run(tmp_path, 0)
    run = replace(run, settings=replace(run.settings, steps=10))
    assert rl.outlook(run, 6).seconds == 4 * 1.5
    run.metrics.unlink()
    rest = rl.outlook(run, 6)
    assert (rest.seconds, rest.responses, rest.tokens) == (0, 4 * 4 * 8, 4 * 4 * 8 * run.settings.max_response)
    best = [{"step": step, "dev_pass_at_1": dev} for step, dev in ((2, 0.3), (4, 0.5), (6, 0.5))]
    write_json_lines(run.metrics, [{"step": 1}, *best])
    assert [best_step(run, saved) for saved in ([2, 4, 6], [2, 6], [1])] == [(4, 0.5), (6, 0.5), None]


# The files of a run's folder, and its lock


def test_a_run_and_its_problems_are_read_back_as_they_were_written(tmp_path):
    fields = {"model": "tiny24", "bonus": "none", "trainer": "trl", "settings": Settings(steps=2), "overrides": ["a=1"]}
    run = game24_run(tmp_path, 5, 3, **fields, plugin_files=(tmp_path / "plugin.py",))
    again = read_run(tmp_path)
    assert replace(again, plugin_files=tuple(again.plugin_files)) == run
    task = Game24()
    chats = [(problem, task.messages(problem)) for problem in task.problems("train")[:5]]
    assert read_problems(run.problems["train"]) == chats


def test_a_folder_without_a_run_is_one_line(tmp_path):
    assert refusal_of(read_run, tmp_path).startswith(f"rl: {tmp_path} holds no run.json: it is not the folder of")
    for text in ("{", "[]", "{}"):
        (tmp_path / "run.json").write_text(text)
        assert refusal_of(read_run, tmp_path).startswith(f"rl: {tmp_path / 'run.json'}: ")


def test_a_half_line_of_a_killed_run_is_no_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == []
    path.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
    assert read_metrics(path) == [{"step": 1, "reward": 0.5}]


def test_a_resumed_log_drops_the_steps_that_are_made_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    for step in range(1, 5):
        log.append(step, {"custom": 1.0, "reward": step / 3})
    with path.open("a") as out:
        out.write('{"step": 5, "rew')
    MetricsLog(path, resumed_after=2).append(3, {"reward": 0.5})
    assert path.read_text().splitlines() == [
        '{"step": 1, "reward": 0.333333, "custom": 1.0}',
        '{"step": 2, "reward": 0.666667, "custom": 1.0}',
        '{"step": 3, "reward": 0.5}',
    ]
    assert sorted(tmp_path.iterdir()) == [tmp_path / "hours.txt", path]


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
    over = [log.is_over(Settings(hours=hours)) for hours in (None, 2.5, 2)]
    assert over == [False, False, True]
    now += 1800
    assert log.is_over(Settings(hours=2.5))


def test_hours_are_instead_of_the_tasks_steps_and_end_a_run_that_goes_on_with_more(tmp_path):
    of_task = Game24.rl["settings"]
    assert rl.settings(TrainRequest(task="x", settings={"hours": "0.5"}), of_task).steps is None
    assert rl.settings(TrainRequest(task="x", settings={"hours": "0.5", "steps": "3"}), of_task).steps == 3
    request = counting_request(tmp_path, out=tmp_path / "run", settings={"batch": "4", "mini_batch": "4", "hours": "2"})
    messages = io.StringIO()
    rl.prepare(request, 0)
    (tmp_path / "run" / "hours.txt").write_text("2.1")
    assert rl.train(request, 0, Progress(messages))["steps"] == 0
    assert "seed 0: its 2 hours were over after step 0; --set hours=H goes on" in messages.getvalue()
    run = rl.prepare(replace(request, settings={**request.settings, "hours": "2.5"}), 0).run
    assert rl.outlook(run, 0, 2.1).seconds == pytest.approx(0.4 * 3600)
    assert rl.expected_steps(run) is None
    write_json_lines(run.metrics, [{"step": step, "step_s": 100} for step in (1, 2, 3)])
    assert rl.expected_steps(run) == 3 + 15  # of 1,440 s
    assert rl.outlook(run, 3, 2.1).seconds == pytest.approx(1440)
    assert rl.expected_steps(replace(run, settings=replace(run.settings, steps=7))) == 7


def test_the_disk_that_checkpoints_take_is_known_before_and_a_run_that_cannot_fit_is_refused(tmp_path, monkeypatch):
    run = game24_run(tmp_path / "run", 8, 4, model="tiny24-weak", bonus="none", trainer="verl", settings=Settings())
    parameters = preflight.parameter_count(embedded("tiny24-weak"))
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: SimpleNamespace(free=100 * parameters))

    def remark(steps: int | None, runs: int = 1, **settings) -> str:
        changed = replace(run, settings=replace(run.settings, save_every=5, **settings))
        return preflight.disk(changed, (4, 8), steps, runs)

    assert f"20 in 100 steps: {96 * parameters / 1e6:.1f} MB to write; {parameters / 1e4:.1f} MB free" in remark(100)
    assert "one every 5 steps, how many is not known before the first step" in remark(None)  # hours end it
    for steps, changed in ((100, {"keep": 3}), (100, {"runs": 2}), (200, {})):
        line = refusal_of(remark, steps, **changed)
        assert line.startswith("rl train: the checkpoints do not fit on the disk: a checkpoint is")
    (run.checkpoints / "global_step_5").mkdir(parents=True)
    (run.checkpoints / "global_step_5" / "model.pt").write_bytes(bytes(12 * parameters))
    assert "20 in 100 steps" in remark(100, keep=3)  # what it has saved is not to be written again


def test_a_training_without_any_correct_rollout_says_that_nothing_was_learned():
    assert rl.no_signal([{"step": 0}, {"step": 1, "all_wrong": 1.0}, {"step": 2, "all_wrong": 0.9}]) == ""
    assert rl.no_signal([{"step": 0}]) == ""
    line = rl.no_signal([{"step": 0}, {"step": 1, "all_wrong": 1.0}, {"step": 2, "all_wrong": 1.0}])
    assert line.startswith("no rollout of its 2 steps was correct, so nothing was learned: a stronger --model")


def enter(folder) -> None:
    with rl.locked(folder):
        pass


def test_a_folder_in_use_is_refused_with_the_process_that_has_it(tmp_path):
    folder = tmp_path / "new"
    with rl.locked(folder) as descriptor:
        line = refusal_of(enter, folder)
        assert os.fstat(descriptor).st_ino == (folder / "lock").stat().st_ino
    assert line.startswith(f"rl train: {folder} is in use by process {os.getpid()} on {platform.node()}: wait for it")
    enter(folder)


def test_the_children_of_a_dead_process_are_waited_for(tmp_path, monkeypatch):
    lock, waits = tmp_path / "lock", []
    dead = run_to_end(["sh", "-c", "echo $$"]).stdout.strip()
    lock.write_text(f"{dead} on {platform.node()}\n")

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            fcntl.flock(file, fcntl.LOCK_UN)

    monkeypatch.setattr(rl.time, "sleep", sleep)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        enter(tmp_path)
        assert waits == [0.1] * 3
        lock.write_text(f"{dead} on elsewhere\n")  # which may run
        fcntl.flock(file, fcntl.LOCK_EX)
        assert f"in use by process {dead} on elsewhere" in refusal_of(enter, tmp_path)
        lock.write_text(f"{dead} on {platform.node()}\n")
        monkeypatch.setattr(rl, "ENDING_S", 0.0)
        assert f"in use by process {dead}" in refusal_of(enter, tmp_path)
