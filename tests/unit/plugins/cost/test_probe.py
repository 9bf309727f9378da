"""A probe measures what it can; a GPU's speed (`roofline`) is the slower of reading and computing."""

from dataclasses import replace

import pytest
from support.refusals import refusal_of
from support.toy import Colours, Keyed, Parrot, Stateless

from harness import HarnessError
from harness.paper import ModelSize
from harness_plugins.cost import probe
from harness_plugins.cost.roofline import GPUS, find_gpu, speed
from harness_plugins.samplers.plain import Vanilla

SIZE = ModelSize(7.62e9, layers=28, kv_width=512, width=3584)


def test_a_probe_measures_lengths_vectors_and_verdicts_of_four_problems():
    measured = probe.probe(Colours(), Parrot(), Vanilla(), max_tokens=8)
    assert (measured.responses, measured.response_tokens, measured.width) == (4 * 64, 3.0, 8)
    assert min(measured.token_s, measured.verdict_s, measured.response_bytes) > 0


def test_what_cannot_be_measured_is_left_out_and_no_response_is_an_error(monkeypatch):
    refused = probe.probe(Keyed(13), Stateless(), Vanilla(), max_tokens=8)  # it does not grade 13 colours
    assert (refused.verdict_s, refused.width) == (None, None)
    assert probe.probe(Keyed(13), Parrot(), Vanilla(), max_tokens=8, unsafe_exec=True).verdict_s > 0
    monkeypatch.setattr(probe, "SECONDS", 0.0)
    monkeypatch.setattr(Parrot, "sample", cut_short(Parrot.sample))
    measured = probe.probe(Colours(), Parrot(), Vanilla(), max_tokens=800)
    assert (measured.response_tokens, measured.verdict_s) == (None, None)
    assert measured.responses == 4 * 16
    assert probe.probe(Colours(), Parrot(), Vanilla(), max_tokens=8).response_tokens == 3.0  # as long as they may be
    with pytest.raises(HarnessError, match="probe: the engine returned no response"):
        probe._sampled(Parrot(), [], 2, Vanilla(), 8, [])


def cut_short(sample):
    def call(self, request):
        sampled = sample(self, request)
        for responses in sampled:
            responses.finish[:] = ["length"] * len(responses)
        return sampled

    return call


def test_a_model_is_tried_where_its_weights_fill_under_half_of_the_free_memory(monkeypatch):
    monkeypatch.setattr(probe, "_has_gpu", lambda: False)
    monkeypatch.setattr(probe.os, "sysconf", {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 80}.__getitem__)
    for parameters, loadable in ((9_999, True), (10_000, False)):  # 4 bytes each
        assert probe.loadable(ModelSize(parameters, layers=1, kv_width=1, width=1)) is loadable
    assert probe.loadable(None)


def test_the_speed_is_the_slower_of_reading_and_computing():
    gpu = replace(GPUS["h100"], bandwidth_share=1.0, flop_share=1.0, step_ms=1e-9)
    single = speed(replace(gpu, sequences=1), SIZE, 100, 200)
    assert single.token_s == pytest.approx((2 * 7.62e9 + 2 * 2 * 28 * 512 * 200) / 3350e9)
    many = speed(replace(gpu, sequences=4096, memory_gb=1e6), SIZE, 1, 1)
    assert [many.token_s, many.read_s] == pytest.approx([2 * 7.62e9 / 989e12] * 2)


def test_sequences_are_as_many_as_memory_holds_and_weights_too_large_take_more_gpus():
    full = speed(replace(find_gpu("a100-40gb:sequences=100000"), memory_gb=1e3, step_ms=1e-9), SIZE, 1000, 4000)
    assert full.sequences == (0.9 * full.devices * 1e12 - 2 * 7.62e9) // (2 * 2 * 28 * 512 * 5000)
    assert speed(GPUS["h100"], SIZE, 100, 200).sequences == 256
    large = ModelSize(70e9, layers=80, kv_width=1024, width=8192)
    assert speed(GPUS["a100-40gb"], large, 100, 300).devices >= 8
    assert speed(GPUS["h200"], large, 100, 300).devices >= 2


def test_a_gpu_that_is_none_is_one_line():
    table = {
        "h10": "--gpu: unknown 'h10' (did you mean 'h100'?",
        "h100:speed=3": "--gpu h100: no 'speed'; there are memory_gb, bandwidth_gbs",
        "h100:step_ms=fast": "--gpu h100: step_ms must be a number above 0, got 'fast'",
        "h100:sequences=0": "--gpu h100: sequences must be a number above 0, got '0'",
    }
    lines = {text: refusal_of(find_gpu, text) for text in table}
    assert not {text: line for text, line in lines.items() if not line.startswith(table[text])}
