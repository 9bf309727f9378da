"""What is refused in one line, and what leaves nothing behind: models of other formats, data out of reach, dry runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.paths import SUPPORT
from support.refusals import refusal_of

from harness import HarnessError
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models.tiny24 import folder as embedded
from harness_plugins.rl import evaluation as rl_eval
from harness_plugins.rl import tables as rl_tables

ENGINES = (Transformers, Vllm)
TRAINER = SUPPORT / "counting_trainer.py"


@pytest.fixture
def model(tmp_path):
    """A copy of the embedded model, to be changed."""
    return Path(shutil.copytree(embedded("tiny24"), tmp_path / "model"))


def refusal(engine, model):
    return refusal_of(engine, model=str(model))


@pytest.mark.parametrize("engine", ENGINES)
def test_gguf_is_refused_as_a_file_and_as_a_folder(engine, tmp_path):
    file = tmp_path / "my-model" / "my-model.Q4_1.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    for path in (file, file.parent):
        assert refusal(engine, path).startswith(f"model {path} is in GGUF format, which no engine here reads: give a ")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_that_holds_safetensors_beside_gguf_is_a_model(engine, model):
    (model / "model.gguf").write_bytes(b"GGUF")
    assert engine(model=str(model)).name == "model"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("whole", [True, False])
def test_an_adapter_is_refused_with_its_base(engine, model, whole):
    if not whole:
        for path in model.iterdir():
            path.unlink()
    (model / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "org/base"}')
    message = refusal(engine, model)
    assert message.startswith(
        f"model folder {model} is an adapter of org/base, which no engine here applies: merge it "
    )


METHODS = {
    "bitsandbytes": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "awq": {"bits": 4, "group_size": 128, "zero_point": True},
    "gptq": {"bits": 4, "group_size": 128},
    "fp8": {},
    "compressed-tensors": {},
}


@pytest.mark.parametrize("method", METHODS)
def test_quantized_weights_are_refused_with_the_config(model, method):
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, **METHODS[method]}
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        HarnessError, match=rf"^model 'model' is quantized \({method}\), which engine transformers does "
    ):
        Transformers(model=str(model)).identity()
    assert Vllm(model=str(model))._checkpoint.config.quantization_config  # for vLLM to read, or to refuse


# rl


def evaluation(*counts):
    policies = [
        {"bonus": bonus, "seed": None, "step": None, "c": list(c)}
        for bonus, c in zip(("base", "repexp"), counts, strict=True)
    ]
    return {"task": "game24", "split": "test", "n": 4, "problems": ["a", "b"], "policies": policies}


def shown(capsys, *counts):
    rl_tables.evaluated(rl_eval.rows(evaluation(*counts)), as_json=False)
    return capsys.readouterr().out


def test_policies_without_a_correct_response_are_not_compared(capsys):
    text = shown(capsys, (0, 0), (0, 0))
    assert "no response was correct: base, repexp; nothing is compared with what solves no problem" in text
    assert "times fewer" not in text


def test_one_that_solves_something_needs_no_fewer_samples_than_one_that_solves_nothing(capsys):
    text = shown(capsys, (0, 0), (2, 0))
    assert "no response was correct: base; " in text
    assert "times fewer" not in text
    assert "repexp needs 4.0 times fewer than base" in shown(capsys, (1, 0), (4, 0))


def test_a_dry_run_of_a_training_leaves_nothing_and_names_the_runs_folder(harness, tmp_path):
    options = (
        "--model",
        "tiny24-weak",
        "--plugin",
        TRAINER,
        "--trainer",
        "counting",
        "--set",
        "batch=4",
        "--limit",
        "8",
    )
    store = tmp_path / "runs"
    dry = harness("rl", "train", "--task", "game24", *options, "--set", "mini_batch=4", "--store", store, "--dry-run")
    assert dry.code == 0, dry.err
    assert not store.exists()
    folder = next(line for line in dry.out.splitlines() if line.startswith("# folder: ")).removeprefix("# folder: ")
    assert folder.startswith(f"{store}/rl/game24-tiny24-weak-repexp-counting-s0-")
    assert dry.out.splitlines()[-1].endswith(folder)
    assert "harness-rl-" not in dry.out


@pytest.mark.parametrize("data", [(), ("--data", "train.jsonl")])
def test_training_data_out_of_reach_names_the_option_of_the_command(harness, tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("harness_tasks.data.sources.hub_is_out_of_reach", lambda: True)
    rows = [json.dumps({"question": f"q{row}", "answer": f"#### {row}"}) for row in range(7473)]
    Path("train.jsonl").write_text("\n".join(rows))
    done = harness("rl", "train", "--task", "gsm8k", "--plugin", TRAINER, "--trainer", "counting", *data)
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith("rl train takes a file for each split: --data train=FILE --data dev=FILE")
    assert not Path("runs").exists()


# pools


def test_a_dry_run_over_a_pool_file_keeps_nothing(harness, tmp_path):
    pool, store = tmp_path / "pool.jsonl", tmp_path / "runs"
    pool.write_text('{"problem_id": "a", "responses": ["x", "y"], "correct": [true, false]}\n')
    options = ("run", "--pool", pool, "--selector", "uniform", "--store", store, "--json")
    dry = harness(*options, "--dry-run")
    assert dry.code == 0, dry.err
    assert not store.exists()
    assert harness(*options).code == 0
    kept = sorted(path.relative_to(store) for path in store.rglob("*"))
    again = harness(*options, "--dry-run")
    assert [row["to_make"] for row in again.rows] == [0, 0, 0]
    assert [row["key"] for row in again.rows] == [row["key"] for row in dry.rows]
    assert sorted(path.relative_to(store) for path in store.rglob("*")) == kept


def test_an_audit_takes_a_file_of_one_split(harness, tmp_path, monkeypatch):
    monkeypatch.setattr("harness_tasks.data.sources.hub_is_out_of_reach", lambda: True)
    data, pool, store = tmp_path / "test.jsonl", tmp_path / "pool.jsonl", tmp_path / "runs"
    rows = [json.dumps({"question": f"q{row}", "answer": f"#### {row}"}) for row in range(1319)]
    data.write_text("\n".join(rows))
    pool.write_text('{"problem_id": "test-3", "responses": ["The answer is 3.", "The answer is 4."]}\n')
    fixed = ("--task", "gsm8k", "--data", data, "--store", store, "--json")
    key = harness("pool", "import", pool, *fixed).rows["pool"]
    audit = harness("pool", "audit", key, *fixed)
    assert audit.code == 0, audit.err
    (tmp_path / "train.jsonl").write_text("\n".join(rows * 5 + rows[:878]))
    wrong = harness("pool", "audit", key, "--task", "gsm8k", "--data", tmp_path / "train.jsonl", "--store", store)
    assert wrong.code == 2
    assert "\n" not in wrong.err.strip()
