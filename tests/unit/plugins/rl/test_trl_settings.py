"""The harness' settings in TRL's names."""

from dataclasses import replace
from pathlib import Path

from corpora import rl_refusals
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refusal_of

from harness.training import Settings, TrainingRun
from harness_plugins.rl import trl_settings

RUN = TrainingRun(Path("folder"), "game24", "m", "repexp", "trl", 5, Settings(steps=3), {})


def test_settings_become_trls():
    arguments = trl_settings.grpo_arguments(RUN, 1, 3)
    assert arguments["per_device_train_batch_size"] * arguments["gradient_accumulation_steps"] == 256 * 8
    assert arguments["per_device_train_batch_size"] * arguments["steps_per_generation"] == 1024 * 8
    assert (arguments["max_steps"], arguments["logging_steps"]) == (12, 4)
    expected = {"epsilon": 0.2, "delta": 3.0, "max_grad_norm": 1.0, "beta": 0.0, "loss_type": "dapo", "seed": 5}
    expected |= {"scale_rewards": "group", "learning_rate": 1e-6, "num_generations": 8, "max_completion_length": 1024}
    expected |= {"bf16": True, "use_cpu": False, "activation_checkpointing": True, "weight_decay": 0.01}
    assert {name: arguments[name] for name in expected} == expected
    on_cpu = trl_settings.grpo_arguments(replace(RUN, cpu=True), 1, 3)
    assert {name for name in arguments if arguments[name] != on_cpu[name]} == {
        *("bf16", "use_cpu", "activation_checkpointing", "dataloader_pin_memory")
    }


def test_processes_share_a_mini_batch_which_they_must_divide():
    two = trl_settings.grpo_arguments(RUN, 2, 3)
    assert two["per_device_train_batch_size"] * two["gradient_accumulation_steps"] == 128 * 8
    line = refusal_of(trl_settings.grpo_arguments, RUN, 3, 3)
    assert line == "trl: mini_batch 256 cannot be shared by 3 processes"
    assert trl_settings.updates(Settings(batch=12, mini_batch=4, ppo_epochs=2)) == 6  # one a pass and mini-batch


@given(mini=st.integers(1, 40), rollouts=st.integers(2, 9), micro=st.integers(1, 70))
def test_a_forward_pass_has_no_more_rows_than_asked_for_and_divides_the_mini_batch(mini, rollouts, micro):
    settings = Settings(batch=mini, mini_batch=mini, rollouts=rollouts, micro_batch=micro)
    rows = trl_settings.micro_batch(settings, 1)
    assert rows == max(size for size in range(1, micro + 1) if (mini * rollouts) % size == 0)


def test_overrides_win_and_are_converted_and_a_wrong_one_is_one_line():
    run = replace(RUN, overrides=("weight_decay=0", "activation_checkpointing=false", "loss_type=grpo"))
    arguments = trl_settings.grpo_arguments(run, 1, 3)
    names = ("weight_decay", "activation_checkpointing", "loss_type")
    assert tuple(arguments[name] for name in names) == (0.0, False, "grpo")
    for override, message in rl_refusals.TRL:
        assert refusal_of(trl_settings.overridden, [override]).startswith(message)
