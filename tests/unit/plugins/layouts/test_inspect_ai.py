"""Pools from inspect_ai: logs, read by its own reader."""

import importlib.util
import io
import zipfile
from types import SimpleNamespace

import pytest
from support.pool_files import pool_refusal

from harness.pools.reading import read_pool
from harness_plugins.layouts.inspect_ai import records_of


def inspect_sample(name, epoch, *texts, error=None):
    """A sample with the fields of inspect_ai's EvalSample that are read."""
    choices = [SimpleNamespace(message=SimpleNamespace(text=text), stop_reason="stop") for text in texts]
    chat = [SimpleNamespace(text="Be brief."), SimpleNamespace(text=f"Say {name}")]
    return SimpleNamespace(
        id=name,
        epoch=epoch,
        input=chat if epoch % 2 else f"Say {name}",
        target=["red"],
        output=SimpleNamespace(choices=choices),
        error=error,
    )


def test_the_epochs_of_a_sample_are_its_responses_in_their_order():
    notes = []
    samples = [
        inspect_sample("a", 2, "a2"),
        inspect_sample(7, 1, "71", "72"),
        inspect_sample("a", 1, "a1"),
        inspect_sample("a", 3, "a3", error="timeout"),
        inspect_sample("b", 1),
    ]
    seven, letter = records_of(samples, notes.append)
    assert (seven.problem_id, seven.responses) == ("sample-7", ["71", "72"])
    assert (letter.problem_id, letter.responses, letter.reference) == ("a", ["a1", "a2"], ["red"])
    assert letter.prompts == ("Be brief.\nSay a",)
    assert notes == ["pool: 2 of 5 samples ended without an answer: no responses"]
    assert [record.prompts for record in records_of(samples[:1], notes.append)] == [("Say a",)]
    assert len(notes) == 1


def test_an_answer_that_a_limit_ended_is_cut_off():
    samples = [inspect_sample("a", 1, "1", "2"), inspect_sample("a", 2, "3"), inspect_sample("b", 1, "4", "5")]
    reasons = iter(("max_tokens", "stop", "model_length", "unknown", "content_filter"))
    for sample in samples:
        for choice in sample.output.choices:
            choice.stop_reason = next(reasons)
    first, second = records_of(samples, print)
    assert first.finish == ["length", "stop", "length"]
    assert list(second.as_responses().finish) == ["stop", "stop"]


def test_the_numbers_of_a_scorer_are_scores_and_its_letters_are_not():
    values = [{"rm": 0.5, "match": "C"}, {"rm": True, "judge": 3}, None]
    samples = [inspect_sample("a", epoch, f"a{epoch}") for epoch in (1, 2, 3)] + [inspect_sample("b", 1, "b1", "b2")]
    for sample, given in zip(samples, [*values, {"rm": 1.0}], strict=True):
        sample.scores = given and {name: SimpleNamespace(value=value) for name, value in given.items()}
    first, second = records_of(samples, print)
    assert first.scores == {"rm": [0.5, None, None], "judge": [None, 3, None]}
    assert second.scores == {}  # a score of two choices together


def zipped(name, content="{}"):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return sink.getvalue()


JSON_LOG = '{\n  "version": 2,\n  "status": "success",\n  "eval": {}\n}'


@pytest.mark.parametrize("content", [zipped("header.json"), zipped("_journal/start.json"), JSON_LOG])
def test_a_log_is_known_by_its_content_and_its_fault_is_one_line(written, content):
    expected = "inspect_ai cannot read this log"
    if importlib.util.find_spec("inspect_ai") is None:
        expected = "an inspect_ai log needs inspect_ai: not installed: pip install 'diversity-harness[inspect]'"
    assert expected in pool_refusal(written(content, "log.bin"))


def test_an_archive_that_is_no_log_is_refused(written):
    assert "a zip archive, but no inspect_ai log" in pool_refusal(written(zipped("readme.txt"), "pool.zip"))
    assert "a broken zip archive" in pool_refusal(written(zipped("header.json")[:40], "cut.eval"))
    bomb = zipped("header.json", bytes(65 << 20))
    assert "expands to 68,157,440 bytes, over 100 times its size" in pool_refusal(written(bomb, "bomb.eval"))


def written_log(folder, kind, samples, status="success"):
    """The path of a log that inspect_ai itself has written."""
    log = pytest.importorskip("inspect_ai.log")
    spec = log.EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="toy", dataset=log.EvalDataset(), model="toy", config=log.EvalConfig()
    )
    path = folder / "log.bin"
    log.write_eval_log(log.EvalLog(eval=spec, status=status, samples=samples), str(path), format=kind)
    return path


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_what_inspect_ai_itself_writes_is_read(tmp_path, kind):
    log = pytest.importorskip("inspect_ai.log")
    from inspect_ai.model import ChatMessageUser, ModelOutput

    inputs = ["Say colour 0 (test).", [ChatMessageUser(content="Say colour 1 (test).")]]
    reasons = {(0, 1): "max_tokens", (0, 2): "stop", (1, 1): "content_filter", (1, 2): "model_length"}
    samples = [
        log.EvalSample(
            id=number,
            epoch=epoch,
            input=inputs[number],
            target="red",
            output=ModelOutput.from_content("toy", f"é{epoch}", stop_reason=reasons[number, epoch]),
        )
        for epoch in (1, 2)
        for number in (0, 1)
    ]
    first, second = read_pool(written_log(tmp_path, kind, samples))
    assert first.responses == second.responses == ["é1", "é2"]
    assert (first.problem_id, first.prompts) == ("sample-0", ("Say colour 0 (test).",))
    assert second.prompts == ("Say colour 1 (test).",)
    assert (first.finish, second.finish) == (["length", "stop"], ["stop", "length"])


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_a_log_without_an_answer_is_refused_with_its_status_and_first_error(tmp_path, kind):
    log = pytest.importorskip("inspect_ai.log")
    from inspect_ai.log import EvalError

    error = EvalError(message="the server\nhas gone", traceback="", traceback_ansi="")
    samples = [log.EvalSample(id=number, epoch=1, input="?", target="", error=error) for number in (0, 1)]
    line = pool_refusal(written_log(tmp_path, kind, samples, "error"))
    assert line.endswith(
        "an inspect_ai log (status error) in which none of 2 samples was answered (the first ended with: the server "
        "has gone): give a log with responses"
    )
    assert "(status cancelled) in which none of 0 samples" in pool_refusal(written_log(tmp_path, kind, [], "cancelled"))
