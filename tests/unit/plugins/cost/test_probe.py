"""A probe measures what it can, and says what it could not."""

from __future__ import annotations

import pytest
from support.toy import Colours, Keyed, Parrot, Stateless

from harness import HarnessError
from harness.paper import ModelSize
from harness_plugins.cost import probe
from harness_plugins.samplers.plain import Vanilla


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
    assert probe.probe(Colours(), Parrot(), Vanilla(), max_tokens=16).response_tokens == 3.0  # as long as they may be
    with pytest.raises(HarnessError, match="probe: the engine returned no response"):
        probe._sampled(Parrot(), [], 2, Vanilla(), 8, [])


def cut_short(sample):
    def call(self, request):
        drawn = sample(self, request)
        for responses in drawn:
            responses.finish[:] = ["length"] * len(responses)
        return drawn

    return call


def test_a_model_is_tried_where_its_weights_fill_under_half_of_the_free_memory(monkeypatch):
    monkeypatch.setattr(probe, "_has_gpu", lambda: False)
    monkeypatch.setattr(probe.os, "sysconf", {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 80}.__getitem__)
    for parameters, loadable in ((9_999, True), (10_000, False)):  # 4 bytes each
        assert probe.loadable(ModelSize(parameters, layers=1, kv_width=1, width=1)) is loadable
    assert probe.loadable(None)
