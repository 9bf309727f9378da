"""A public language model, `smollm2-135m`, through engines, samplers, grading, a kill, and RL: `make test-models`.

The tiny models of the other tests write what they were made to write. This one writes English and Python, badly. It is
compared with what is written out here, and with evalplus' own checker.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.environments import environment_python
from support.evalplus_verdicts import evalplus_passes
from support.json_lines import read_json_lines
from support.processes import harness_command, run_to_end
from support.stores import files_of

from harness import Sampler
from harness.columns.responses import responses_of
from harness.columns.store import read
from harness.errors import Lacking
from harness.records import SampleRequest
from harness.system.json_text import readable
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models import smollm2
from harness_plugins.samplers.guided import RepExpGuided
from harness_tasks.evalplus_tasks import MbppPlus
from harness_tasks.gsm8k import Gsm8k
from harness_tasks.programs.program_text import program_in

pytestmark = [pytest.mark.slow, pytest.mark.release]

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
PROBLEMS, N, MAX_TOKENS = 3, 6, 160


@pytest.fixture(scope="module")
def model() -> str:
    """The model's name; without its folder the test is skipped."""
    try:
        smollm2.fetched()
    except Lacking as lacking:
        pytest.skip(f"{lacking}")
    return smollm2.NAME


@pytest.fixture(scope="module")
def reference(model, one_thread):
    """The tokenizer and the model as transformers itself loads them."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = smollm2.fetched()
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def gsm8k(model, shared_data, tmp_path_factory):
    """The store of a run on the first problems of GSM8K."""
    store = tmp_path_factory.mktemp("gsm8k")
    options = ("--n", N, "--limit", PROBLEMS, "--max-tokens", MAX_TOKENS, "--selector", "repexp", "--yes")
    data = ("--data", shared_data / "tasks" / "gsm8k_test.jsonl", "--model", model, "--store", store)
    run_to_end(harness_command("run", "--task", "gsm8k", *data, *options), env=ENVIRONMENT, check=True)
    return store


def forward_pass(reference, prompt: list[dict[str, str]], token_ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities (length,) and last hidden states (length, d) of a response, by one plain forward pass."""
    import torch

    tokenizer, model = reference
    ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"]
    with torch.no_grad():
        output = model(torch.tensor([[*ids, *token_ids]]), output_hidden_states=True)
    logprobs = output.logits[0, len(ids) - 1 : -1].double().log_softmax(-1)
    chosen = logprobs[torch.arange(len(token_ids)), torch.tensor(token_ids)]
    return chosen.numpy(), output.hidden_states[-1][0, len(ids) :].numpy()


def test_logprobs_and_vectors_are_those_of_a_plain_forward_pass(gsm8k, reference, shared_data):
    task = Gsm8k(data=str(shared_data / "tasks" / "gsm8k_test.jsonl"))
    pairs = zip(files_of(gsm8k, "responses"), files_of(gsm8k, "vectors"), strict=True)
    for problem, (pool, embedding) in zip(task.problems("test"), pairs, strict=False):
        responses, vectors = responses_of(read(pool)), read(embedding)
        means = []
        for ids, logprob in zip(responses.token_ids, responses.logprobs, strict=True):
            chosen, states = forward_pass(reference, task.messages(problem), list(ids))
            assert logprob == pytest.approx(chosen.sum(), abs=1e-2)
            means.append(states.mean(axis=0))
        # Wide vectors are projected: distances between responses stay, up to the projection's noise.
        ours = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
        plain = np.linalg.norm(np.array(means)[:, None] - np.array(means)[None], axis=-1)
        off_diagonal = ~np.eye(N, dtype=bool)
        assert np.corrcoef(ours[off_diagonal], plain[off_diagonal])[0, 1] > 0.9


def test_verdicts_on_its_programs_are_evalplus_own(model, shared_data, tmp_path):
    data = shared_data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz"
    options = ("--n", 4, "--limit", 5, "--max-tokens", 160, "--selector", "repexp", "--json")
    command = harness_command(
        *("run", "--task", "mbppplus", "--data", data, "--model", model, "--store", tmp_path, "--yes", *options)
    )
    [row] = json.loads(run_to_end(command, env=ENVIRONMENT, check=True).stdout)
    assert (row["model"], row["embedder"], row["errors"]) == ("smollm2-135m", "hidden-mean", 0)
    assert "Apache-2.0" in next(tmp_path.rglob("weights.json")).read_text()
    task, programs = MbppPlus(data=str(data)), 0
    problems = {readable(problem.id): problem for problem in task.problems("test")}
    for pool, verdict in zip(files_of(tmp_path, "responses"), files_of(tmp_path, "verdicts"), strict=True):
        exercise, responses = task.exercise(problems[pool.name.split(".")[0]]), responses_of(read(pool))
        ended = [finish == "length" for finish in responses.finish]
        for text, cut_off, status in zip(responses.texts, ended, read(verdict)["status"].to_pylist(), strict=True):
            program = program_in(text, exercise.entry_point, cut_off=cut_off)
            assert (status == "correct") == (program is not None and evalplus_passes(exercise, [program.source])[0])
            programs += program is not None
    assert programs >= 10


def test_guided_sampling_gives_the_model_s_own_log_probabilities_and_other_texts_than_plain(model, reference):
    engine = Transformers(model=model)
    prompt = [{"role": "user", "content": "Name an animal."}]
    plain = SampleRequest([prompt], n=4, sampler=Sampler(top_p=0.95, top_k=128), max_tokens=24, seeds=(1,))
    [expected] = engine.sample(plain)
    [guided] = engine.sample(replace(plain, sampler=RepExpGuided(beta=1.0)))
    assert guided.texts[0] == expected.texts[0]  # the first response has no bonus
    assert guided.texts != expected.texts
    for ids, logprob in zip(guided.token_ids, guided.logprobs, strict=True):
        assert logprob == pytest.approx(forward_pass(reference, prompt, list(ids))[0].sum(), abs=1e-2)


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_steps_of_rl_change_the_weights_and_log_finite_numbers(trainer, model, shared_data, tmp_path):
    if trainer == "verl":
        environment_python("HARNESS_VERL_PYTHON", "verl")
    data = shared_data / "tasks"
    steps = 2 if trainer == "trl" else 1
    settings = {"steps": steps, "save_every": steps, "batch": 2, "mini_batch": 2, "micro_batch": 2, "rollouts": 4}
    settings |= {"max_response": 64, "dev_samples": 1, "learning_rate": 1e-4}
    command = harness_command(
        *("rl", "train", "--task", "gsm8k", "--trainer", trainer, "--cpu", "--model", model, "--limit", 4, "--yes"),
        *("--data", f"train={data / 'gsm8k_train.jsonl'}", "--data", f"dev={data / 'gsm8k_test.jsonl'}"),
        *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")),
        *("--bonus", "repexp:gate=no", "--out", tmp_path / "run"),  # it solves none: without a gate, the bonus is all
    )
    done = run_to_end(command, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-3000:]
    last = read_json_lines(tmp_path / "run" / "metrics.jsonl")[-1]
    assert last["step"] == steps
    assert all(np.isfinite(value) for value in last.values() if isinstance(value, float))
    assert last["bonus"] > 0
    assert last["grad_norm" if trainer == "trl" else "actor/grad_norm"] > 0
    (checkpoint,) = (tmp_path / "run" / "checkpoints").glob(f"*step*{steps}")
    if trainer == "trl":  # verl keeps its own files, which are merged when they are sampled from
        before, after = (load_file(folder / "model.safetensors") for folder in (smollm2.fetched(), checkpoint))
        moved = [name for name in after if not torch.equal(before[name].float(), after[name].float())]
        assert len(moved) > len(after) / 2
