"""A public language model, `smollm2-135m`, through engine, samplers and RL: `make test-models`.

The tiny models of the other tests write what they were made to write. This one writes English and Python, badly. It is
compared with a plain forward pass.
"""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.json_lines import read_json_lines
from support.processes import harness_command, run_to_end

from harness import Sampler
from harness.errors import Lacking
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models import smollm2
from harness_plugins.samplers.guided import RepExpGuided

pytestmark = [pytest.mark.slow, pytest.mark.release]
PROMPT = [{"role": "user", "content": "Name an animal."}]


@pytest.fixture(scope="module")
def folder(one_thread):
    """The model's folder; without it the test is skipped."""
    try:
        return smollm2.fetched()
    except Lacking as lacking:
        pytest.skip(f"{lacking}")


def test_logprobs_and_states_are_those_of_a_plain_forward_pass_and_guided_sampling_gives_other_texts(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    engine, sampler = Transformers(model=smollm2.NAME), Sampler(top_p=0.95, top_k=128)
    request = SampleRequest([PROMPT], n=4, sampler=sampler, max_tokens=24, seeds=(1,), states=("mean",))
    [plain] = engine.sample(request)
    [guided] = engine.sample(replace(request, sampler=RepExpGuided(beta=1.0)))
    assert guided.texts[0] == plain.texts[0]  # the first response has no bonus
    assert guided.texts != plain.texts
    start = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, return_dict=True)["input_ids"]
    for responses in (plain, guided):
        for row, ids in enumerate(responses.token_ids):
            with torch.no_grad():
                output = model(torch.tensor([[*start, *ids]]), output_hidden_states=True)
            logprobs = output.logits[0, len(start) - 1 : -1].double().log_softmax(-1)
            chosen = logprobs[torch.arange(len(ids)), torch.tensor(list(ids))].sum()
            assert responses.logprobs[row] == pytest.approx(float(chosen), abs=1e-2)
            mean = output.hidden_states[-1][0, len(start) :].mean(0).numpy()
            np.testing.assert_allclose(responses.states["mean"][row], mean, atol=1e-3)


def test_two_steps_of_rl_log_finite_numbers_and_a_bonus(folder, shared_data, tmp_path):
    data = shared_data / "tasks"
    settings = {"steps": 2, "save_every": 2, "batch": 2, "mini_batch": 2, "micro_batch": 2, "rollouts": 4}
    settings |= {"max_response": 64, "dev_samples": 1, "learning_rate": 1e-4}
    command = harness_command(
        *("rl", "train", "--task", "gsm8k", "--trainer", "trl", "--cpu", "--model", smollm2.NAME, "--limit", 4),
        *("--data", f"train={data / 'gsm8k_train.jsonl'}", "--data", f"dev={data / 'gsm8k_test.jsonl'}", "--yes"),
        *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")),
        *("--bonus", "repexp:gate=no", "--out", tmp_path / "run"),  # it solves none: without a gate, the bonus is all
    )
    done = run_to_end(command, env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    last = read_json_lines(tmp_path / "run" / "metrics.jsonl")[-1]
    assert last["step"] == 2
    assert all(np.isfinite(value) for value in last.values() if isinstance(value, float))
    assert min(last["bonus"], last["grad_norm"]) > 0
    assert list((tmp_path / "run" / "checkpoints").glob("*step*2"))
