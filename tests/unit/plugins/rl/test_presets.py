"""Settings and bonus of a run, from the task, the preset and the user."""

from harness_plugins.rl import presets
from harness_plugins.rl.requests import TrainRequest
from harness_plugins.rl.training import Settings
from harness_tasks.data.rl_settings import DAPO_AIME


def test_settings_are_the_users_else_the_tasks_else_the_papers():
    assert presets.settings(TrainRequest(task="x"), {}) == Settings()
    assert presets.settings(TrainRequest(task="x", preset="exploring"), {}) == Settings()
    of_task = DAPO_AIME["settings"]
    own = presets.settings(TrainRequest(task="x", settings={"rollouts": "4"}), of_task)
    assert (own.rollouts, own.batch) == (4, of_task["batch"])


def test_the_users_bonus_is_before_the_presets_and_that_before_the_tasks():
    def bonus(text: str, preset: str = "paper") -> str:
        return str(presets.bonus(TrainRequest(task="x", bonus=text, preset=preset), DAPO_AIME["bonus"]))

    assert [bonus(text) for text in ("repexp:lam=1", "repexp:dim=16", "none")] == [
        *("repexp:dim=128,lam=1", "repexp:dim=16", "none")
    ]
    assert bonus("repexp", "exploring") == "repexp:dim=4,spread=0.5"
    assert bonus("repexp:spread=0.1,gate=mixed", "exploring") == "repexp:dim=4,spread=0.1,gate=mixed"
    assert bonus("unlikely", "exploring") == "unlikely"
