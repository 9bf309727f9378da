"""What a machine must have: how large a model is that is not on this disk, which GPUs count, and what is no guess."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.refusals import refusal_of
from support.training_runs import counting_request, game24_run

from harness.system.progress import Progress
from harness_plugins.models.location import Location, embedded
from harness_plugins.rl import preflight, training_run
from harness_plugins.rl.training import Settings
from harness_tasks.game24 import Game24

WEAK = 942_976  # parameters of tiny24-weak


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The one repository of a hub: its folder, of which nothing is in the cache."""
    folder = tmp_path / "snapshot"
    folder.mkdir()

    def file(model: str, name: str, revision: str, local: bool):
        if not (folder / name).is_file():
            raise OSError(f"{model} has no {name}")
        return folder / name

    monkeypatch.setattr(preflight, "hub_is_out_of_reach", lambda: False)
    monkeypatch.setattr(preflight, "hub_file", file)
    monkeypatch.setattr(preflight, "_cached", lambda model: None)
    return folder


def test_a_models_size_is_known_by_its_weights_its_config_or_its_name(hub, monkeypatch):
    model = embedded("tiny24-weak")
    assert preflight.size_of(Location("tiny24-weak", model)).parameters == WEAK
    shutil.copy(model / "config.json", hub)
    size = preflight.size_of(Location("lab/weak", None))
    assert (size.parameters, size.to_fetch, size.is_sure) == (WEAK, 2 * WEAK, True)
    assert size.known == " (by its config.json, lab/weak is not on this disk)"
    config = json.loads((hub / "config.json").read_text())
    (hub / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
    assert preflight.size_of(Location("lab/weak", None)).to_fetch == 4 * WEAK
    (hub / "config.json").write_text(json.dumps(config | {"model_type": "nobody-knows-it"}))
    size = preflight.size_of(Location("lab/Weak-1.5B-Instruct", None))
    assert (size.parameters, size.is_sure) == (1_500_000_000, False)
    assert size.known == " (by its name alone, lab/Weak-1.5B-Instruct is not on this disk)"
    monkeypatch.setattr(preflight, "hub_is_out_of_reach", lambda: True)
    assert preflight.size_of(Location("lab/strong-135M", None)).parameters == 135_000_000
    size = preflight.size_of(Location("lab/strong", None))
    assert (size.parameters, size.known) == (0, "not known, lab/strong is not on this disk")


def test_a_part_of_the_shards_is_not_taken_for_the_model(hub, monkeypatch):
    model = embedded("tiny24-weak")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(model / name, hub)
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (hub / preflight.INDEX).write_text(json.dumps(index))
    monkeypatch.setattr(preflight, "_cached", lambda model: hub)
    size = preflight.size_of(Location("lab/weak", None))
    assert (size.parameters, size.to_fetch) == (WEAK, 2 * WEAK)
    assert "by its config.json" in size.known


def test_only_gpus_in_sight_count(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '0, GPU-aa, 81920\\n1, GPU-bb, 40960\\n'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for visible, gib in ((None, [80, 40]), ("1", [40]), ("GPU-bb,0", [40, 80]), ("", []), ("MIG-x", [80])):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert preflight.gpu_memory() == gib


def test_memory_that_is_too_little_refuses_and_a_guess_only_remarks(hub, tmp_path, monkeypatch):
    shutil.copy(embedded("tiny24-weak") / "config.json", hub)
    monkeypatch.setattr(preflight, "gpu_memory", lambda: [0.001] * 8)
    run = game24_run(tmp_path / "run", 2, 2, model="lab/weak", bonus="none", trainer="verl", settings=Settings())
    assert "0.00 B parameters (by its config.json" in refusal_of(preflight.several_gpus, run)
    overrides = ("actor_rollout_ref.actor.fsdp_config.param_offload=True",)
    remark = preflight.several_gpus(replace(run, overrides=overrides))[0]
    assert remark.startswith("memory: it may be too little: verl: the model does not fit")
    assert remark.endswith(f"; {overrides[0]} may change that")
    (hub / "config.json").unlink()
    assert "(by its name alone" in preflight.several_gpus(replace(run, model="lab/weak-7b"))[0]
    nothing = preflight.several_gpus(replace(run, model="lab/weak"))
    assert nothing == ["memory: not estimated, the model's size is not known, lab/weak is not on this disk"]


def test_weights_that_do_not_fit_into_the_hubs_cache_are_not_fetched(hub, monkeypatch):
    shutil.copy(embedded("tiny24-weak") / "config.json", hub)
    size = preflight.size_of(Location("lab/weak", None))
    assert "trl: 1.9 MB of weights are to be fetched into" in preflight.fetching("trl", size)[0]
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: SimpleNamespace(free=1e6))
    assert refusal_of(preflight.fetching, "trl", size).endswith(
        "name another disk by HF_HUB_CACHE, or give a local folder"
    )


def test_a_machine_without_room_is_told_before_a_problem_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(Game24, "problems", lambda self, split: pytest.fail("the problems were read"))
    monkeypatch.setattr(preflight, "gpu_memory", lambda: [])
    request = counting_request(tmp_path, trainer="trl")
    line = refusal_of(training_run.train, request, 0, Progress(quiet=True))
    assert line.startswith("trl: no GPU found")
    assert not (tmp_path / "rl").exists()
