"""What a run's folder holds: the run, its problems, its metrics."""

from dataclasses import replace

from support.refusals import refusal_of
from support.training_runs import game24_run

from harness.training import Settings
from harness_plugins.rl.run_files import read_metrics, read_problems, read_run
from harness_tasks.game24 import Game24


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
        assert refusal_of(read_run, tmp_path).startswith(f"rl: {tmp_path / 'run.json'} cannot be read: ")


def test_a_half_line_of_a_killed_run_is_no_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == []
    path.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
    assert read_metrics(path) == [{"step": 1, "reward": 0.5}]
