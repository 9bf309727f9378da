"""The complete checkpoints of a run of verl."""

from harness_plugins.rl.verl_child import resuming


def test_only_marked_checkpoints_count_and_verl_is_pointed_at_the_last(tmp_path):
    for step in (2, 4, 10, 12):
        (tmp_path / f"global_step_{step}").mkdir()
    for step in (2, 4, 10):
        resuming.mark_complete(tmp_path / f"global_step_{step}")
    (tmp_path / resuming.TRACKER).write_text("")  # as a kill between opening and writing leaves it
    assert list(resuming.complete(tmp_path)) == [2, 4, 10]
    assert resuming.tidy(tmp_path) == 10
    assert (tmp_path / resuming.TRACKER).read_text() == "10"
    assert not (tmp_path / "global_step_12").exists()


def test_without_a_whole_checkpoint_a_run_begins_anew(tmp_path):
    (tmp_path / "global_step_2").mkdir()
    (tmp_path / resuming.TRACKER).write_text("2")
    assert resuming.tidy(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_step_is_logged_when_its_whole_line_is_there(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    assert not resuming.logged(metrics, 2)
    metrics.write_text('{"step": 20, "reward": 1.0}\n{"step": 2, "rew')
    assert not resuming.logged(metrics, 2)
    assert resuming.logged(metrics, 20)
