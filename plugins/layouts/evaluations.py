"""Pools from what evaluation tools log: evalplus, human-eval, lm-evaluation-harness, verl, CodeT, and lighteval.

All but lighteval write JSON lines (evalplus also folders of programs). lighteval writes one parquet file of details a
task, one row a document. Up to 0.10 a row has `example`, `full_prompt`, `predictions` and `gold`, some versions with
every column cast to text. From 0.11 on it has the structs `doc` (`query`, `id`, `task_name`, `specific`, ...),
`model_response` (`text`: a list of the responses as the model wrote them) and `metric`. The layouts were read off
releases 0.10.0, 0.11.0 and 0.13.0.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness import HarnessError
from harness.pools.record import PoolRecord, Say, grouped, is_number, text_in, texts_in
from harness.system.files import beginning
from harness.system.json_text import Line, parsed

PROMPTS = ("question", "problem", "prompt")  # names under which data sets keep a problem's text
IDS = ("unique_id", "task_id")  # names under which data sets keep ids that are not mere row numbers
ROWS_AT_ONCE = 64  # of a parquet file


def first_texts(document: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return the non-blank texts under these names (in lower case), in their order; () if the document is no mapping.

    The document's keys may be in upper or lower case.
    """
    entries = document.items() if isinstance(document, Mapping) else ()
    texts = {str(key).lower(): text for key, text in entries if isinstance(text, str) and text.strip()}
    return tuple(texts[name] for name in names if name in texts)


def generated(value: Any, where: str) -> list[str]:
    """Return logged responses: a text, or texts in a list or in lists of lists; HarnessError if there is none."""
    texts: list[Any] = []
    for entry in value if isinstance(value, list) else [value]:
        texts += entry if isinstance(entry, list) else [entry]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise HarnessError(
            f"{where}: holds no responses (those of a multiple-choice task are log-likelihoods): only tasks that "
            "generate make a pool"
        )
    return texts


def messages_text(prompt: Any) -> str:
    """Return a prompt as text: itself, or the contents of its chat messages; "" if it is neither."""
    if isinstance(prompt, list) and all(isinstance(message, Mapping) and "content" in message for message in prompt):
        return "\n".join(str(message["content"]) for message in prompt)
    return prompt if isinstance(prompt, str) else ""


class Evalplus:
    """Samples of evalplus and human-eval, `{"task_id": ..., "solution" or "completion": ...}`, one a line."""

    name, keys = "evalplus", "task_id, solution or completion"
    verdicts = ("passed", "base_status", "plus_status")  # human-eval's, evalplus'

    def fits(self, value: Mapping[str, Any]) -> bool:
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
        return path.is_dir() and bool(self.files(path))

    def files(self, path: Path) -> list[Path]:
        """Return the folder's programs (`PROBLEM/NUMBER.py`), sorted by problem, then by number."""

        def place(file: Path) -> tuple[str, int, str, int]:  # `HumanEval_2` comes before `HumanEval_10`
            problem = file.parent.name
            return problem.rstrip("0123456789"), len(problem), problem, int(file.stem)

        return sorted((file for file in path.glob("*/*.py") if file.stem.isdecimal()), key=place)

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """Yield a record per problem, whose id is its folder's name with "/" for "_": `HumanEval/0`."""
        say("pool: read as folders of evalplus samples")

        def record(file: Path) -> tuple[str, PoolRecord]:
            task = file.parent.name.replace("_", "/")
            try:
                return task, PoolRecord(task, [file.read_text(encoding="utf-8")])
            except UnicodeDecodeError as failure:
                raise HarnessError(f"pool {file}: not UTF-8 text ({failure})") from failure

        return grouped(map(record, self.files(path)))


class LmEval:
    """Samples of lm-eval, `{"doc_id": ..., "doc": {...}, "resps": [[...]], ...}`, a line for a document and filter.

    By `--log_samples`; to 0.4.2 an array. What it writes once for each of a task's filters is one set of responses: of
    a document the lines of the first filter count, and where lines name no filter (as up to 0.4.3), those whose
    responses differ.
    """

    name, keys = "lm-evaluation-harness", "doc_id, doc, resps"
    remark = "; its metrics are of filtered answers: not taken as verdicts"

    def fits(self, value: Mapping[str, Any]) -> bool:
        return "doc_id" in value and "resps" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per document, in order of first appearance, without what repeats it for another filter."""
        return grouped(self._unfiltered(lines))

    def _unfiltered(self, lines: Iterator[Line]) -> Iterator[tuple[Hashable, PoolRecord]]:
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
                more_prompts=first_texts(doc, PROMPTS) or tuple(self._model_prompts(value.get("arguments"))),
            )
            content, name = (key, hash(tuple(record.responses))), value.get("filter")
            if (filters.setdefault(key, name) == name) if "filter" in value else (content not in seen):
                yield key, record
            seen.add(content)

    def _model_prompts(self, arguments: Any) -> Iterator[str]:
        """The prompts that the model was given: `[[prompt, options]]`, from 0.4.3 on {"gen_args_0": {"arg_0": prompt}}.

        Models behind an API are given chat messages as JSON.
        """
        requests = arguments.values() if isinstance(arguments, dict) else arguments
        for request in requests if isinstance(requests, Iterable) else ():
            prompt = request.get("arg_0") if isinstance(request, dict) else request
            while isinstance(prompt, list) and prompt:
                prompt = prompt[0]
            if isinstance(prompt, str):
                chat: Any = ""
                with suppress(HarnessError):
                    chat = prompt.startswith("[{") and parsed(prompt, "prompt", lenient=True)
                yield messages_text(chat) or prompt


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
        return {"input", "output", "score"} <= value.keys()

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per distinct input; its problem's id is the number of its first line, `line-1`."""
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
        return "prompt" in value and "samples" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per line; the problem's id is the line's number, `line-1`."""
        for line in lines:
            prompt, samples = text_in(line.value, "prompt", line.where), texts_in(line.value, "samples", line.where)
            yield PoolRecord(f"line-{line.number}", samples, prompt=prompt)


class Lighteval:
    """Details of lighteval (`--save-details`): parquet with a row for each document, up to 0.10 or from 0.11 on.

    Metrics are of all responses together: no verdicts.
    """

    name, holds = "lighteval", "lighteval parquet"

    def fits(self, path: Path) -> bool:
        """Return whether the path is a parquet file, whatever its columns; `read` refuses unknown ones."""
        return path.is_file() and beginning(path, 4) == b"PAR1"

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """Yield a record per document; rows that repeat a document's responses for another metric are left out.

        HarnessError if the columns are not lighteval's, or the file cannot be read. `say` gets a line on the metrics.
        """
        try:
            with pq.ParquetFile(path) as file:
                columns = set(file.schema_arrow.names)
                if columns >= {"doc", "model_response"}:
                    columns &= {"doc", "model_response"}
                elif "predictions" in columns and columns & {"example", "full_prompt"}:
                    columns &= {"example", "full_prompt", "predictions", "gold"}
                else:
                    raise HarnessError(
                        f"pool {path}: unknown layout: its columns are {', '.join(file.schema_arrow.names):.300}; of "
                        "parquet files those of lighteval are known (doc and model_response, or full_prompt and "
                        "predictions)"
                    )
                metrics = "their metrics are of all responses together: not taken as verdicts"
                say(f"pool: read as lighteval details; {metrics}")
                batches = file.iter_batches(batch_size=ROWS_AT_ONCE, columns=sorted(columns), use_threads=False)
                yield from grouped(self._distinct(path, (row for batch in batches for row in batch.to_pylist())))
        except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError) as failure:
            raise HarnessError(f"pool {path}: this parquet file cannot be read ({failure})") from failure

    def _distinct(self, path: Path, rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Hashable, PoolRecord]]:
        seen: set[Hashable] = set()
        for number, row in enumerate(rows, 1):
            key, record = (self._new if "doc" in row else self._old)(row, f"pool {path}, row {number}")
            content = key, hash(tuple(record.responses))
            if content not in seen:
                seen.add(content)
                yield key, replace(record, problem_id=f"row-{number}")

    def _new(self, row: Mapping[str, Any], where: str) -> tuple[Hashable, PoolRecord]:
        doc, response = row["doc"] or {}, row["model_response"] or {}
        if not (isinstance(doc, Mapping) and isinstance(response, Mapping)):
            raise HarnessError(f"{where}: doc and model_response must be structs, as lighteval writes them")
        prompts = (*first_texts(doc.get("specific"), PROMPTS), *first_texts(doc, ("original_query", "query")))
        responses = generated(response.get("text"), where)
        record = PoolRecord("", responses, reference=doc.get("choices"), more_prompts=prompts)
        return (str(doc.get("task_name")), str(doc.get("id")), prompts), record

    def _old(self, row: Mapping[str, Any], where: str) -> tuple[Hashable, PoolRecord]:
        # A column may have been cast to text: `"['a', 'b']"` is a list, any other text itself.
        values = dict(row)
        for name, text in row.items():
            if isinstance(text, str) and text.startswith("["):
                with (
                    suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError),
                    warnings.catch_warnings(action="ignore"),  # of odd escapes in a prompt that only looks like a list
                ):
                    values[name] = ast.literal_eval(text)
        # The full prompt may hold other problems as examples: it counts only where the bare one is missing.
        prompt = messages_text(values.get("example")) or messages_text(values.get("full_prompt"))
        responses = generated(values["predictions"], where)
        return prompt, PoolRecord("", responses, prompt, reference=values.get("gold"))
