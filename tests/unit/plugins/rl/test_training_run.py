"""From a request to a run, and a run followed to its end, with a third party's trainer in place of a heavy one."""

import io
import json
from dataclasses import replace

import pytest
from support.json_lines import write_json_lines
from support.refusals import refusal_of
from support.training_runs import counted_run, counting_request

from harness.system.progress import Progress, Stage
from harness_plugins.rl import training_run as rl
from harness_plugins.rl.run_files import read_metrics, read_problems, read_run
from harness_plugins.rl.training import Settings


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


@pytest.fixture
def sums(tmp_path, monkeypatch):
    """The options of a training on data of GSM8K's form."""
    monkeypatch.setattr("harness_tasks.gsm8k.DEV", 4)
    rows = [{"question": f"How many is {i}?", "answer": f"It is {i}. #### {i}"} for i in range(8)]
    return {"task": "gsm8k", "data": {"": str(write_json_lines(tmp_path / "sums.jsonl", rows))}}


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


def test_a_run_that_recorded_no_reward_goes_on_only_where_there_is_but_one(tmp_path, sums):
    requests = [counting_request(tmp_path, out=tmp_path / name, **more) for name, more in (("24", {}), ("8k", sums))]
    for request in requests:
        file = rl.prepare(request, 0).run.folder / "run.json"
        recorded = json.loads(file.read_text())
        del recorded["reward"]
        file.write_text(json.dumps(recorded))
        assert read_run(file.parent).reward == "unrecorded"
    assert rl.prepare(requests[0], 0).run.reward == "verifier"
    line = refusal_of(rl.prepare, requests[1], 0)
    assert "holds a run with another reward ('unrecorded', now 'strict'): give another --out" in line


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
    assert [rl.best_step(run, saved) for saved in ([2, 4, 6], [2, 6], [1])] == [(4, 0.5), (6, 0.5), None]
