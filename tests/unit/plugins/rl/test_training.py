"""The settings of a training."""

from corpora import rl_refusals
from support.refusals import refusal_of

from harness_plugins.rl.training import Settings


def test_settings_that_cannot_be_are_refused():
    for wrong, line in rl_refusals.SETTINGS:
        assert refusal_of(Settings, **wrong) == line
    Settings(batch=1, mini_batch=1, rollouts=2, steps=1)


def test_the_default_settings_are_the_papers():
    settings = Settings()
    assert (settings.learning_rate, settings.batch, settings.mini_batch, settings.rollouts) == (1e-6, 1024, 256, 8)
