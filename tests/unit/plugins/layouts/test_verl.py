"""Pools from verl: dumps of samples, one a line."""

from __future__ import annotations

from corpora.tool_lines import VERL
from support.pool_files import LAYOUTS, notes_on, pool_refusal, responses_in
from support.refusals import wrongly_refused

from harness.pools.reading import read_pool


def verl_line(colour, output, step=40, **fields):
    prompt = VERL["input"].replace("colour 0", f"colour {colour}")
    return VERL | {"input": prompt, "output": output, "step": step} | fields


def test_a_dump_is_grouped_by_input_and_its_scores_are_no_verdicts(written):
    path = written([verl_line(0, "say red"), verl_line(1, "a"), verl_line(0, "say blue", score=0.0), verl_line(0, "")])
    assert responses_in(path) == {"line-1": ["say red", "say blue", ""], "line-2": ["a"]}
    record = next(read_pool(path))
    assert (record.prompt, record.correct, record.reference) == (verl_line(0, "")["input"], None, "red")
    assert notes_on(path) == ["pool: read as verl samples; its scores are rewards: not taken as verdicts"]


def test_two_steps_of_a_run_are_two_models_and_no_pool(written, tmp_path):
    written([verl_line(0, "a", 0)], "val/0.jsonl")
    written([verl_line(0, "b", 40)], "val/40.jsonl")
    assert "line 1: step 40 after step 0: other weights, another pool" in pool_refusal(tmp_path / "val")


def test_a_line_without_texts_is_refused(written):
    faults = [
        (verl_line(0, None), "line 1: output must be a text, got None"),
        (verl_line(0, "a", input=[1]), "line 1: input must be a text"),
    ]
    assert not wrongly_refused(faults, lambda line: list(read_pool(written([line]), layouts=LAYOUTS)))
