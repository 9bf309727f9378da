"""Settings and bonus of a run, from the task, the preset and the user."""

from harness.training import Settings
from harness_plugins.rl import presets
from harness_plugins.rl.requests import TrainRequest
from harness_tasks.data.rl_settings import DAPO_AIME, GAME24


def groups(settings: Settings) -> tuple[int, int, int]:
    return settings.batch, settings.mini_batch, settings.rollouts


def test_exploring_makes_groups_of_16_of_as_many_responses_a_step_and_an_update():
    for of_task, paper, exploring in (
        ({}, (1024, 256, 8), (512, 128, 16)),
        (DAPO_AIME["settings"], (512, 128, 8), (256, 64, 16)),
        (GAME24["settings"], (64, 16, 8), (32, 8, 16)),
    ):
        for preset, expected in (("paper", paper), ("exploring", exploring)):
            request = TrainRequest(task="x", preset=preset)
            assert groups(presets.settings(request, of_task)) == expected
    assert presets.settings(TrainRequest(task="x"), {}) == Settings()
    own = TrainRequest(task="x", preset="exploring", settings={"rollouts": "4", "steps": "3"})
    assert groups(presets.settings(own, {})) == (512, 128, 4)
    assert presets.settings(own, {}).steps == 3


def test_the_users_bonus_is_before_the_presets_and_that_before_the_tasks():
    def bonus(text: str, preset: str = "paper") -> str:
        return str(presets.bonus(TrainRequest(task="x", bonus=text, preset=preset), DAPO_AIME["bonus"]))

    assert [bonus(text) for text in ("repexp:lam=1", "repexp:dim=16", "none")] == [
        *("repexp:dim=128,lam=1", "repexp:dim=16", "none")
    ]
    assert bonus("repexp", "exploring") == "repexp:dim=8,spread=0.25"
    assert bonus("repexp:spread=0.1,gate=mixed", "exploring") == "repexp:dim=8,spread=0.1,gate=mixed"
    assert bonus("unlikely", "exploring") == "unlikely"
