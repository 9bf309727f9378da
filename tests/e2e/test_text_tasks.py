"""The paper's text tasks end to end: real problems, a real (tiny, random) checkpoint, pools made elsewhere."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
from support.json_lines import write_json_lines
from support.processes import harness_command, run_to_end

FILES = {
    "mbppplus": "MbppPlus-v0.2.0.jsonl.gz",
    "humanevalplus": "HumanEvalPlus-v0.1.10.jsonl.gz",
    "math500": "math500.jsonl",
    "gsm8k": "gsm8k_test.jsonl",
    "aime24": "aime24_qwq.jsonl",
    "aime25": "aime25_qwq.jsonl",
}
CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def rows_of(path: Path) -> list[dict]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """A chat model and a base model: tiny random Qwen2 checkpoints with a tokenizer of all bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        ["def f(x): return x"],
        trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<end>"], show_progress=False),
    )
    folders = {}
    for kind, template in (("chat", CHAT), ("base", None)):
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")
        fast.chat_template = template
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = Qwen2ForCausalLM(
                Qwen2Config(
                    vocab_size=len(fast),
                    hidden_size=32,
                    intermediate_size=64,
                    num_hidden_layers=2,
                    num_attention_heads=2,
                    num_key_value_heads=2,
                    max_position_embeddings=16384,
                    eos_token_id=fast.eos_token_id,
                    pad_token_id=fast.pad_token_id,
                )
            )
        folders[kind] = tmp_path_factory.mktemp(kind)
        model.save_pretrained(folders[kind])
        fast.save_pretrained(folders[kind])
    return folders


@pytest.fixture
def run(harness, shared_data, tmp_path):
    """Run a task on its real file: `run("gsm8k", "--limit", 2, ...)`."""

    def call(task, *args):
        data = ("--data", shared_data / "tasks" / FILES[task.partition(":")[0]])
        fixed = ("--selector", "repexp", "--selector", "uniform", "--store", tmp_path / "runs", "--json")
        return harness("run", "--task", task, *data, *fixed, *args)

    return call


@pytest.mark.parametrize("kind", ["chat", "base"])
@pytest.mark.parametrize("task", FILES)
def test_a_task_runs_on_any_causal_lm_folder(run, models, task, kind):
    if task in ("humanevalplus", "aime24") and kind == "base":
        pytest.skip("as its sister task")
    options = ("--model", models[kind], "--limit", "2", "--n", "4", "--max-tokens", "12")
    outcome = run(task, *options)
    assert outcome.code == 0, outcome.err
    for row in outcome.rows:
        assert (row["task"], row["problems"], row["n"], row["errors"], row["solvable"]) == (task, 2, 4, 0, 0)
    if task in ("mbppplus", "humanevalplus"):
        assert "sandbox: " in outcome.err
        assert len(outcome.rows[0]["conditions"]["sandbox"]) == 1
    again = run(task, *options)
    assert again.rows == outcome.rows
    assert "verdicts: reused for 2 of 2" in again.err


def test_an_evalplus_samples_file_is_graded_and_ranked(run, shared_data, tmp_path):
    problems = rows_of(shared_data / "tasks" / FILES["mbppplus"])[:3]
    samples = tmp_path / "samples.jsonl"
    lines = []
    for problem in problems:
        wrong = f"def {problem['entry_point']}(*args):\n    return 'no such thing'\n"
        lines += [(problem["task_id"], program) for program in (wrong, wrong, problem["canonical_solution"], "def (")]
    samples.write_text("".join(json.dumps({"task_id": name, "solution": text}) + "\n" for name, text in lines))
    outcome = run("mbppplus", "--pool", samples)
    assert outcome.code == 0, outcome.err
    row = outcome.rows[0]
    assert (row["problems"], row["n"], row["solvable"], row["errors"]) == (3, 4, 3, 0)
    assert row["samples_to_correct_random"] == 2.5
    assert row["pass_at_k"]["4"] == 1


@pytest.mark.parametrize(
    ("task", "right"),
    [
        ("math500", lambda row: row["solution"]),
        ("gsm8k", lambda row: row["answer"]),
        ("aime25", lambda row: f"So \\boxed{{{row['answer']}}}."),
    ],
)
def test_responses_made_elsewhere_are_graded_and_ranked(run, shared_data, tmp_path, task, right):
    rows = rows_of(shared_data / "tasks" / FILES[task])[:5]
    prompts = [row.get("problem") or row.get("question") or row["prompt"] for row in rows]
    wrong = ["\\boxed{12345.678}", "I do not know."]
    lines = [
        {"problem_id": f"mine-{i}", "prompt": prompt, "responses": [*wrong, right(row)]}
        for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True))
    ]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    outcome = run(task, "--pool", pool, "--audit")
    assert outcome.code == 0, outcome.err
    row = outcome.rows[0]
    assert (row["problems"], row["solvable"], row["errors"], row["disputed"]) == (5, 5, 0, 0)
    assert row["samples_to_correct_random"] == 2


@pytest.mark.parametrize("task", [*FILES, "math", "dapo-math"])
def test_without_the_hub_the_message_names_the_data_and_the_option(tmp_path, task):
    options = ("--task", task, "--selector", "uniform", "--model", "tiny24", "--store", tmp_path / "runs")
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = run_to_end(harness_command("run", *options), env=environment, timeout=120)
    assert done.returncode == 2
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "--data" in line
    assert task.partition("plus")[0][:4].lower() in line.lower()


@pytest.mark.parametrize("task", FILES)
def test_the_exact_first_prompt_is_shown(harness, shared_data, task):
    data = shared_data / "tasks" / FILES[task]
    shown = harness("show", "task", task, "--example", "--data", data, "--json").rows
    first = rows_of(data)[0]
    raw = first.get("problem") or first.get("question") or first["prompt"]
    assert shown["prompt"].strip() in raw
    assert shown["prompt"].strip() in shown["messages"][0]["content"]
    assert shown["plain"]


def test_no_grader_imports_torch(shared_data):
    code = """
import sys
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry

registry = load_registry()
for name, file in (("mbppplus", "MbppPlus-v0.2.0.jsonl.gz"), ("math500", "math500.jsonl")):
    task = build(registry, "task", name, data=sys.argv[1] + "/" + file)
    problem = next(iter(task.problems("test")))
    right = problem.reference if name == "mbppplus" else "\\\\boxed{" + problem.reference + "}"
    verdicts = task.verify_all(problem, [right, "x = \\\\boxed{x^2+77}"])
    assert [verdict.status for verdict in verdicts] == ["correct", "wrong"], verdicts
print([name for name in ("torch", "transformers") if name in sys.modules])
"""
    command = [sys.executable, "-W", "ignore", "-c", code, shared_data / "tasks"]
    done = run_to_end(command, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
