"""The tokens and rows that vLLM's core puts out, counted beside what it returns."""

from types import SimpleNamespace

from harness_plugins.engines.vllm.child.harness_vllm import sampling as counting
from harness_plugins.engines.vllm.child.harness_vllm.sampling import Counts


def output(name, tokens, finish=None):
    return SimpleNamespace(request_id=name, new_token_ids=tokens, finish_reason=finish)


def test_sampled_tokens_and_ended_rows_are_counted_and_the_outputs_stay_as_they_are(monkeypatch):
    steps = [
        [output("0_d31x7-a", [5]), output("1_d31x7-a", [6], "stop"), output("g31x8-b", [1], "length")],
        [output("0_d31x7-a", [5, 9], "length"), output("s9", [4])],
    ]
    returned = [SimpleNamespace(outputs=each) for each in steps]
    engine = SimpleNamespace(engine_core=SimpleNamespace(get_output=iter(returned).__next__))
    counts, told = Counts(engine), []
    counts.report = lambda *new: told.append(new)
    for expected in returned:
        assert engine.engine_core.get_output() is expected
        counts.look()  # the second is within a second of the first
    assert told == [(2, 1)]
    assert (counts.tokens, counts.rows) == (2, 1)
    monkeypatch.setattr(counting.time, "monotonic", lambda: counts.due)
    counts.look()
    assert told == [(2, 1), (2, 1)]


def test_an_unknown_vllm_is_not_counted():
    for engine in (SimpleNamespace(), SimpleNamespace(engine_core=object())):
        assert Counts(engine).tokens == 0
    engine = SimpleNamespace(engine_core=SimpleNamespace(get_output=lambda: None))
    counts = Counts(engine)
    assert engine.engine_core.get_output() is None
    assert counts.tokens == 0
