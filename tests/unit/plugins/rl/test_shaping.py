"""What every trainer's process uses: the grader as a reward, the bonus with its memory, the metrics file."""

from pathlib import Path

import torch
from support.refusals import refusal_of
from support.rollouts import rollouts

from harness import Problem, Task, correct, error, wrong
from harness_plugins.rl.shaping import Grader, MetricsLog, Shaping
from harness_plugins.rl.training import Settings, TrainingRun

PROBLEM = Problem("train-5", "How many is 5?", "5")


def run_of(task: str = "game24", reward: str = "verifier", bonus: str = "none") -> TrainingRun:
    return TrainingRun(Path("run"), task, "model", bonus, "trl", 3, Settings(), {}, reward=reward)


def test_each_reward_has_its_grader_and_what_is_not_recorded_none():
    responses = ("I think 5", "The answer is 5", r"so \boxed{5}", "#### $5", "#### 5")
    for reward, rewards in (("strict", [0, 0, 0, 0, 1]), ("lenient", [0, 0, 1, 1, 1]), ("verifier", [0, 0, 1, 1, 1])):
        assert Grader(run_of("gsm8k:fallback=no", reward)).rewards(PROBLEM, responses) == rewards, reward
    line = refusal_of(Grader, run_of(reward="unrecorded"))
    assert line == "rl: the reward of run must be one of strict, lenient, verifier, got 'unrecorded'"


def test_the_prompt_asks_for_the_form_that_the_strict_grader_wants():
    hashes, box = ("####", "#### 5"), (r"\boxed{", r"\boxed{5}")
    for task, (before, form) in (("gsm8k", hashes), ("math", box), ("dapo-aime", box)):
        grader = Grader(run_of(task, "strict"))
        assert grader.task.rl["reward"] == "strict"
        assert before in grader.task.messages(PROBLEM)[-1]["content"]
        assert grader.rewards(PROBLEM, [f"Two and three make five. {form}", "Two and three make 5."]) == [1, 0]


def test_a_runs_bonus_has_the_options_that_its_text_gives():
    bonus = Shaping(run_of(bonus="repexp:dim=4,gate=mixed,spread=0.25")).bonus
    assert (bonus.dim, bonus.gate, bonus.spread, bonus.beta) == (4, "mixed", 0.25, 0.01)
    assert [Shaping(run_of(bonus=f"repexp:gate={gate}")).bonus.gate for gate in ("true", "no")] == [True, False]


class Ends(Task):
    """Judges by how a response ended; the second grader by its text, and says nothing of a."""

    def verify_all(self, problem, responses, *, finish):
        return [{"stop": correct(), "length": wrong("cut")}.get(end, error("unknown")) for end in finish]

    def audit(self, problem, response):
        return {"b": correct(), "a": None, "c": wrong("ended")}[response]


def test_the_verifier_knows_how_responses_ended_and_an_error_is_counted_and_gives_nothing():
    for reward, rewards in (("verifier", [1, 0, 0]), ("strict", [0, 1, 0])):
        grader = Grader(run_of(reward=reward))
        grader.task = Ends()
        assert grader.rewards(PROBLEM, ["a", "b", "c"], ["stop", "length", "odd"]) == rewards
        assert grader.errors == 1
        assert [verdict.status for verdict in grader.verdicts(PROBLEM, ["a"])] == ["error"]  # how it ended is unknown
        assert grader.errors == 1


def test_a_bonus_memory_is_kept_with_a_checkpoint(tmp_path):
    first, second = (Shaping(run_of(bonus="repexp:persist=true")) for _ in range(2))
    assert (first.name, first.needs("hidden"), first.needs("logprobs")) == ("repexp", True, False)
    steps = [rollouts(seed, correct=1.0) for seed in (0, 10)]
    alone = first.shape(steps[1], 1).rewards
    first.load(tmp_path)  # which has none
    assert first.memory == {}
    first.shape(steps[0], 0)
    first.save(tmp_path)
    second.load(tmp_path)
    again = second.shape(steps[1], 1).rewards
    assert torch.equal(first.shape(steps[1], 1).rewards, again)
    assert not torch.equal(again, alone)


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
    assert list(tmp_path.iterdir()) == [path]
