"""The checks of `harness gpu-check` that sample, with transformers in place of vLLM, which is in `environments/`."""

from dataclasses import replace

import pytest

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.settings import VARIABLE
from harness_plugins.gpu_check import sampling_checks
from harness_plugins.gpu_check.record import Setting, Skipped
from harness_plugins.gpu_check.sampling_checks import KINDS, PROMPTS, TOLERANCE, keep

pytestmark = pytest.mark.usefixtures("one_thread")
SAMPLED = {"vllm-float32": "passed"}
RELATIVE = "largest relative difference"


@pytest.fixture(scope="module")
def sampled(one_thread):
    """Two responses to each prompt."""
    request = SampleRequest(PROMPTS, n=2, sampler=Sampler(), max_tokens=24, seeds=range(len(PROMPTS)), states=KINDS)
    return Transformers("tiny24", device="cpu").sample(request)


@pytest.fixture
def compared(tmp_path, sampled):
    """The result for these responses, with one vector of one kind made longer by a share of its length."""

    def call(share=0.0, kind="last", place=3):
        states = {name: values.copy() for name, values in sampled[place].states.items()}
        states[kind][1] *= 1 + share
        changed = [*sampled[:place], replace(sampled[place], states=states), *sampled[place + 1 :]]
        keep(tmp_path / "vllm-float32.npz", changed)
        return sampling_checks.hidden_states(Setting("cpu", "tiny24", tmp_path, SAMPLED))

    return call


def test_states_within_the_tolerance_pass_and_one_outside_fails(compared):
    same, near, far = compared(), compared(0.5 * TOLERANCE["float32"]), compared(2 * TOLERANCE["float32"])
    assert [each.outcome for each in (same, near, far)] == ["passed", "passed", "failed"], same.reason
    relative = [each.metrics[f"vllm-float32: {RELATIVE}"][0] for each in (same, near, far)]
    assert relative == pytest.approx([0, 5e-4, 2e-3], abs=1e-5)
    assert same.metrics["vllm-float32: smallest cosine"][0] == pytest.approx(1, abs=1e-6)
    assert same.metrics["vllm-float32: largest difference of a log-probability"][0] < 1e-5
    assert same.metrics["vllm-float32: responses"][0] == 2 * len(PROMPTS)


def test_in_bfloat16_the_tolerance_is_three_times_what_transformers_is_off(tmp_path, monkeypatch, sampled):
    monkeypatch.setitem(TOLERANCE, "bfloat16", 1e-9)
    keep(tmp_path / "vllm-bfloat16.npz", sampled)
    setting = Setting("cpu", "tiny24", tmp_path, {"vllm-bfloat16": "passed"})
    passed = sampling_checks.hidden_states(setting)
    own = passed.metrics[f"vllm-bfloat16: {sampling_checks.OWN}"][0]
    assert passed.outcome == "passed"
    assert passed.metrics[f"vllm-bfloat16: {RELATIVE}"][0] < 1e-5 < 1e-3 < own < 0.1
    assert f"(tolerance {3 * own:.2g})" in passed.reason
    longer = [replace(each, states={kind: 4 * own * v + v for kind, v in each.states.items()}) for each in sampled]
    keep(tmp_path / "vllm-bfloat16.npz", longer)
    assert sampling_checks.hidden_states(setting).outcome == "failed"


def test_a_state_that_is_no_number_fails(compared):
    result = compared(float("nan"))
    assert result.outcome == "failed"
    assert result.to_json()["metrics"][f"vllm-float32: {RELATIVE}"]["value"] is None


def test_what_an_earlier_run_sampled_is_not_compared(tmp_path, sampled):
    keep(tmp_path / "vllm-float32.npz", sampled)
    with pytest.raises(Skipped, match="nothing"):
        sampling_checks.hidden_states(Setting("cpu", "tiny24", tmp_path, {"vllm-float32": "skipped"}))


def test_speed_counts_the_tokens_up_to_each_responses_end(tmp_path, monkeypatch):
    monkeypatch.setitem(sampling_checks.TIMED, "cpu", 1)
    result = sampling_checks.transformers_throughput(Setting("cpu", "tiny24", tmp_path))
    assert result.outcome == "passed"
    assert result.metrics["responses"] == (len(PROMPTS), "responses")
    assert len(PROMPTS) < result.metrics["tokens"][0] <= len(PROMPTS) * sampling_checks.TOKENS
    assert result.metrics["tokens a second"][0] > 0


def test_without_vllm_its_checks_are_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "python"))
    with pytest.raises(Skipped, match="is not there"):
        sampling_checks.vllm_float32(Setting("cpu", "tiny24", tmp_path))


def test_the_older_model_runner_is_tried_only_where_the_chosen_one_fails(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "python"))
    lines = {}
    for device, outcome in (("cpu", "failed"), ("cuda", "passed"), ("cuda", "failed")):
        with pytest.raises(Skipped) as skipped:
            sampling_checks.vllm_v1(Setting(device, "tiny24", tmp_path, {"vllm-bfloat16": outcome}))
        lines[device, outcome] = str(skipped.value)
    assert "V1 model runner in any case" in lines["cpu", "failed"]
    assert lines["cuda", "passed"].startswith("only made if")
    assert "is not there" in lines["cuda", "failed"]
