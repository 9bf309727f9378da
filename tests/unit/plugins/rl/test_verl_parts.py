"""What the trainer `verl` is made of that needs no verl: configuration, memory, contract, environment, pooling."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml
from pyarrow import parquet
from support.processes import printed_by
from support.refusals import refusal_of

from harness import HarnessError, Problem
from harness.training import Settings, TrainingRun
from harness_plugins.models.tiny24 import folder
from harness_plugins.rl import verl_environment, verl_trainer
from harness_plugins.rl.run_files import write_problems, write_run
from harness_plugins.rl.shaping import Grader
from harness_plugins.rl.verl_child import RUN, contract, resuming, run_options
from harness_plugins.rl.verl_child import reward as reward_function
from harness_plugins.rl.verl_child.pooling import response_means
from harness_plugins.rl.verl_config import configuration, fitting, nested, sampler_share
from harness_plugins.rl.verl_memory import cache_bytes, estimate, parameter_count
from harness_plugins.rl.verl_trainer import Verl

QWEN_7B = {  # Qwen2.5-7B's config.json, what matters of it
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
AIME = Settings(batch=512, mini_batch=128, micro_batch=8, max_prompt=2048, max_response=8192, save_every=10)


@pytest.fixture
def run(tmp_path) -> TrainingRun:
    """A CPU run of the embedded model, as the harness writes it."""
    settings = Settings(batch=2, mini_batch=2, micro_batch=8, rollouts=4, max_prompt=64, max_response=64, steps=3)
    problems = {}
    for split in ("train", "dev", "test"):
        problems[split] = tmp_path / f"{split}.jsonl"
        asked = [(Problem(f"{split}-{i}", "?", reference={"a": i}), [{"role": "user", "content": "?"}]) for i in (0, 1)]
        write_problems(problems[split], asked)
    return TrainingRun(tmp_path, "game24:n=3", "tiny24-weak", "repexp", "verl", 7, settings, problems, cpu=True)


@pytest.fixture
def here(monkeypatch):
    """This interpreter as verl's environment: it is launched only by whoever runs the command."""
    monkeypatch.setenv(verl_environment.VARIABLE, sys.executable)


def composed(run: TrainingRun, **settings: object) -> dict:
    config = replace(run, cpu=False, settings=replace(Settings(), **settings))
    return configuration(config, "org/model", {"train": Path("t.parquet"), "dev": Path("d.parquet")}, with_ref=True)


# The configuration


def test_the_defaults_are_the_papers(run):
    config = composed(run)
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    assert (config["data"]["train_batch_size"], actor["ppo_mini_batch_size"], rollout["n"]) == (1024, 256, 8)
    assert (actor["ppo_micro_batch_size_per_gpu"], actor["optim"]["lr"], actor["clip_ratio"]) == (16, 1e-6, 0.2)
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["entropy_coeff"]) == (True, 0.0, 0.0)
    assert (rollout["tensor_model_parallel_size"], rollout["gpu_memory_utilization"]) == (2, 0.6)
    assert (rollout["max_num_batched_tokens"], rollout["val_kwargs"]["n"]) == (8192, 128)
    assert (config["trainer"]["n_gpus_per_node"], config["trainer"]["save_freq"]) == (8, 20)
    assert config["trainer"]["total_training_steps"] is None


def test_aime_gets_its_own_lengths_and_shares(run):
    rollout = configuration(replace(run, settings=AIME, cpu=False), "m", {"train": Path("t")}, True)
    rollout = rollout["actor_rollout_ref"]["rollout"]
    assert (rollout["max_num_batched_tokens"], rollout["gpu_memory_utilization"]) == (10240, 0.5)
    assert sampler_share(AIME) == 0.5


def test_every_seed_comes_from_the_runs(run):
    config = composed(run)
    parts = config["actor_rollout_ref"]
    seeds = [config["data"]["seed"], parts["rollout"]["seed"], parts["actor"]["data_loader_seed"]]
    assert [*seeds, parts["actor"]["fsdp_config"]["seed"], parts["ref"]["fsdp_config"]["seed"]] == [7] * 5


def test_without_a_dev_split_nothing_is_validated(run):
    trainer = configuration(run, "m", {"train": Path("t")}, True)["trainer"]
    assert (trainer["test_freq"], trainer["val_before_train"]) == (-1, False)


def test_without_the_reference_and_without_kl_none_is_run(run):
    data = {"train": Path("t")}
    actor = configuration(run, "m", data, with_ref=False)["actor_rollout_ref"]["actor"]
    assert actor["use_kl_loss"] is False
    kl = replace(run, settings=replace(run.settings, kl=0.1))
    assert configuration(kl, "m", data, with_ref=False)["actor_rollout_ref"]["actor"]["use_kl_loss"] is True


def test_a_dotted_key_becomes_a_tree():
    assert nested({"a.b": 1, "a.c": 2, "d": 3}) == {"a": {"b": 1, "c": 2}, "d": 3}


def test_launch_writes_what_the_child_reads(run, here):
    launch = Verl().launch(replace(run, overrides=("trainer.save_freq=5",)))
    assert launch.command == [sys.executable, "-m", "harness_plugins.rl.verl_child", str(run.folder)]
    assert launch.environment["VERL_PLATFORM"] == "cpu"
    assert (run.folder / "verl.yaml").read_text() == launch.config
    assert yaml.safe_load(launch.config)["defaults"] == ["ppo_trainer", "_self_"]
    assert "# trainer.save_freq=5" in launch.config
    rows = parquet.read_table(run.folder / "data" / "train.parquet").to_pylist()
    assert [row["extra_info"] for row in rows] == [
        {"split": "train", "index": i, "problem": f"train-{i}"} for i in range(2)
    ]
    assert (rows[1]["reward_model"]["ground_truth"], rows[0]["data_source"]) == ('{"a": 1}', "game24")
    assert not (run.folder / "data" / "test.parquet").exists()


def test_a_gpu_run_is_told_nothing_of_cpus(run, here):
    launch = Verl().launch(replace(run, cpu=False))
    assert "VERL_PLATFORM" not in launch.environment
    assert "cpu" not in yaml.safe_load(launch.config)["trainer"].values()


# What is checked before anything starts


@pytest.fixture
def complete(monkeypatch, here):
    """An environment with all that is needed, without asking one."""
    found = {"verl": contract.VERSION, "TransferQueue": "1", "vllm": "1", "diversity-harness": "1"}
    monkeypatch.setattr(verl_trainer, "installed", lambda python: found)
    return found


def test_a_cpu_run_that_can_start_is_described(run, complete):
    remarks = Verl().check(run)
    assert "verl 0.9.1" in remarks[0]
    assert "CPU" in remarks[1]


def test_no_gpu_is_one_line_that_names_the_way_out(run, complete, monkeypatch):
    monkeypatch.setattr(verl_trainer, "gpu_memory", list)
    assert "--cpu" in refusal_of(Verl().check, replace(run, cpu=False))


def test_too_few_gpus_are_counted(run, complete, monkeypatch):
    monkeypatch.setattr(verl_trainer, "gpu_memory", lambda: [80.0] * 2)
    assert "8 GPUs are asked for, 2 are here" in refusal_of(Verl().check, replace(run, cpu=False))


def test_a_sampler_that_does_not_divide_the_gpus_is_refused(run, complete, monkeypatch):
    monkeypatch.setattr(verl_trainer, "gpu_memory", lambda: [80.0] * 3)
    odd = replace(run, cpu=False, settings=replace(run.settings, rollouts=3, devices=3, tensor_parallel=2))
    assert "tensor_parallel=2" in refusal_of(Verl().check, odd)


def test_updates_that_do_not_divide_over_the_gpus_are_refused(run, complete):
    odd = replace(run, cpu=False, settings=replace(run.settings, devices=3))
    assert "8 responses an update do not divide over 3 GPUs" in refusal_of(Verl().check, odd)


def test_a_pass_has_as_many_rows_as_divide_a_workers():
    assert [fitting(24, 16), fitting(1024, 16), fitting(8, 16), fitting(7, 4)] == [12, 16, 8, 1]


def test_the_embedded_model_fits_any_gpu_and_the_remark_says_so(run, complete, monkeypatch):
    monkeypatch.setattr(verl_trainer, "gpu_memory", lambda: [80.0] * 8)
    assert "0.00 B parameters need" in Verl().check(replace(run, cpu=False))[-1]


def test_a_sampler_is_needed_on_gpus(run, complete, monkeypatch):
    monkeypatch.setattr(verl_trainer, "gpu_memory", lambda: [80.0] * 8)
    monkeypatch.setitem(complete, "vllm", None)
    assert "verl[vllm]" in refusal_of(Verl().check, replace(run, cpu=False))


def test_more_problems_a_step_than_there_are_is_refused(run, complete):
    large = replace(run, settings=replace(run.settings, batch=4, mini_batch=4))
    assert "takes 4 problems, the train split has 2" in refusal_of(Verl().check, large)


def test_missing_data_and_models_are_refused(run, complete):
    run.problems["dev"].unlink()
    assert "dev split" in refusal_of(Verl().check, run)
    assert "does not exist" in refusal_of(Verl().check, replace(run, model="./nowhere"))


def test_a_model_without_chat_template_is_refused(run, complete, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "tokenizer_config.json", "model.safetensors"):
        (bare / name).write_text("{}")
    assert "no chat template" in refusal_of(Verl().check, replace(run, model=str(bare)))


def test_an_encoder_without_its_mode_is_refused():
    assert "hidden=encoder" in refusal_of(Verl, None, "ref", "org/encoder")


def test_an_environment_is_found_by_parameter_then_variable_then_beside(monkeypatch, tmp_path):
    monkeypatch.setenv(verl_environment.VARIABLE, sys.executable)
    assert verl_environment.find_python(None) == Path(sys.executable)
    assert "python=/nowhere" in refusal_of(verl_environment.find_python, "/nowhere")
    monkeypatch.delenv(verl_environment.VARIABLE)
    monkeypatch.setattr(verl_environment, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    assert "python -m venv .venv-verl" in refusal_of(verl_environment.find_python, None)
    beside = tmp_path / ".venv-verl" / "bin" / "python"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert verl_environment.find_python(None) == beside


def test_an_environment_is_asked_what_it_has(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert "does not run" in refusal_of(verl_environment.installed, broken)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"verl": None}, "has no verl"),
        ({"verl": "0.8.0"}, "has verl 0.8.0, but this plugin is for 0.9.1"),
        ({"TransferQueue": None}, "has no TransferQueue"),
        ({"diversity-harness": None}, "has no diversity-harness"),
    ],
)
def test_what_an_environment_lacks_is_named(found, said):
    whole = {"verl": "0.9.1", "TransferQueue": "1", "vllm": None, "diversity-harness": "1"}
    assert said in refusal_of(verl_environment._require, whole | found, Path("python"))


# Memory


def test_the_parameters_of_a_dense_model_are_counted_from_its_config(tmp_path):
    assert parameter_count(tmp_path, QWEN_7B) == pytest.approx(7.6e9, rel=0.01)


def test_the_embedded_models_parameters_are_read_from_its_weights():
    model = folder("tiny24-weak")
    assert parameter_count(model, json.loads((model / "config.json").read_text())) == 942_976


def test_a_token_of_a_7b_model_keeps_56_kib():
    assert cache_bytes(QWEN_7B) == 2 * 2 * 28 * 4 * 128


def test_the_papers_model_fits_eight_gpus_of_80_gib_and_not_one():
    eight = estimate(7_600_000_000, QWEN_7B, Settings())
    assert eight.updating == pytest.approx(14.2, abs=0.1)
    assert "memory" in eight.require(80, 0.6)
    one = estimate(7_600_000_000, QWEN_7B, Settings(devices=1, tensor_parallel=1))
    assert "does not fit" in refusal_of(one.require, 80, 0.6)


def test_weights_at_rest_beside_the_sampler_must_fit_too():
    two = estimate(7_600_000_000, QWEN_7B, Settings(devices=2, tensor_parallel=1))
    assert two.updating < 80
    assert two.sampler < 0.6 * 80
    assert "42.5 beside the sampler" in refusal_of(two.require, 80, 0.6)


def test_a_sampler_that_overfills_its_share_is_refused():
    needs = estimate(7_600_000_000, QWEN_7B, Settings(devices=64, tensor_parallel=1))
    assert "does not fit" in refusal_of(needs.require, 20, 0.6)
    assert needs.updating < 20


# The contract


class Stable:
    """A stand-in for a class of verl."""

    def kept(self, batch, metrics):
        """As it was read."""


@pytest.fixture
def stand_in(monkeypatch):
    module = ModuleType("stand_in")
    module.Stable = Stable
    monkeypatch.setitem(sys.modules, "stand_in", module)


def test_what_is_as_it_was_read_passes(stand_in):
    contract.require({"stand_in:Stable.kept": ("self", "batch", "metrics"), "stand_in:Stable": None})


@pytest.mark.parametrize(
    ("place", "parameters", "said"),
    [
        ("stand_in:Stable.gone", None, "stand_in has no Stable.gone"),
        ("stand_in:Stable.kept", ("self", "batch"), "takes (self, batch, metrics), not (self, batch)"),
        ("no_such_module:x", None, "no_such_module cannot be imported"),
    ],
)
def test_what_differs_is_named_in_one_line(stand_in, place, parameters, said):
    line = refusal_of(contract.require, {place: parameters})
    assert said in line
    assert "0.9.1" in line


def test_all_that_differs_is_named_at_once(stand_in):
    line = refusal_of(contract.require, {"stand_in:a": None, "stand_in:b": None})
    assert "stand_in has no a" in line
    assert "stand_in has no b" in line


def test_another_version_and_no_verl_at_all_are_one_line_each():
    contract.require_version(lambda name: contract.VERSION)
    assert "0.9.2 is installed" in refusal_of(contract.require_version, lambda name: "0.9.2")

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    assert "not installed" in refusal_of(contract.require_version, absent)


def test_nothing_of_the_harness_side_imports_verl_or_ray():
    sides = "verl_trainer, verl_config, verl_environment, verl_memory, trl_trainer"
    code = f"import sys; from harness_plugins.rl import {sides}; print({{'verl', 'ray', 'trl'}} & set(sys.modules))"
    assert printed_by(code) == "set()"


# Checkpoints


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


# Pooling


def rows_of(lengths: list[int], d: int = 5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(length, d, generator=generator, dtype=torch.float64) for length in lengths]


@pytest.mark.parametrize("behind", [0, 7])
def test_packed_and_padded_rows_have_the_same_means(behind):
    lengths, prompts = [6, 3, 9], [2, 2, 5]
    rows = rows_of(lengths)
    expected = torch.stack([row[prompt:].float().mean(0) for row, prompt in zip(rows, prompts, strict=True)])
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float("nan"))
    packed = torch.cat([*rows, torch.full((behind, 5), float("nan"), dtype=torch.float64)])[None]
    for states in (padded, packed):
        assert torch.equal(response_means(states, offsets, torch.tensor(prompts)), expected)


def test_one_row_alone_is_padded_and_packed_at_once():
    (row,) = rows_of([6])
    means = response_means(row[None], torch.tensor([0, 6]), torch.tensor([2]))
    assert torch.equal(means[0], row[2:].float().mean(0))


def test_a_row_without_response_has_its_prompts_last_state():
    (row,) = rows_of([4])
    assert torch.equal(response_means(row[None], torch.tensor([0, 4]), torch.tensor([4]))[0], row[3].float())


def test_states_cut_apart_are_refused():
    with pytest.raises(ValueError, match="do not hold rows"):
        response_means(torch.zeros(1, 5, 2), torch.tensor([0, 4, 8]), torch.tensor([1, 1]))


# The reward


@pytest.mark.parametrize(("reward", "rewards"), [("strict", [0, 0, 1]), ("lenient", [0, 1, 1])])
def test_verls_reward_function_is_the_runs_grader(run, monkeypatch, reward, rewards):
    asked = [(Problem("train-0", "?", reference="5"), [{"role": "user", "content": "?"}])]
    write_problems(run.problems["train"], asked)
    write_run(replace(run, task="gsm8k:fallback=no", reward=reward))
    monkeypatch.setenv(RUN, str(run.folder))
    for cached in (run_options.current_run, reward_function._grader, reward_function._problems):
        cached.cache_clear()
    info = {"split": "train", "problem": "train-0"}
    said = ["I think 5", r"\boxed{5}", "#### 5"]
    assert [reward_function.compute_score("gsm8k", text, "5", info) for text in said] == rewards
    assert not (run.folder / reward_function.ERRORS).exists()


def test_a_run_whose_reward_is_not_recorded_is_graded_by_nobody(run):
    with pytest.raises(HarnessError, match="must be one of strict, lenient, verifier, got 'unrecorded'"):
        Grader(replace(run, reward="unrecorded"))
