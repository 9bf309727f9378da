"""Pools from lm-evaluation-harness (`--log_samples`): JSON lines, or to 0.4.2 an array, one a document and filter.

What lm-eval writes once for each of a task's filters is one set of responses: of a document the lines of the first
filter count, and where lines name no filter (as up to 0.4.3), those whose responses differ.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from harness import HarnessError
from harness.pools.record import PoolRecord, grouped, texts_in
from harness.system.json_text import Line, parsed

from .documents import IDS, PROMPTS, first_texts


class LmEval:
    """Samples of lm-eval, `{"doc_id": ..., "doc": {...}, "resps": [[...]], ...}`, a line for a document and filter."""

    name, keys = "lm-evaluation-harness", "doc_id, doc, resps"
    remark = "; its metrics are of filtered answers: not taken as verdicts"

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has a document's number (`doc_id`) and the model's responses (`resps`)."""
        return "doc_id" in value and "resps" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per document, in order of first appearance.

        Lines that repeat a document's responses for another filter are left out.
        """
        return grouped(_unfiltered(lines))


def _unfiltered(lines: Iterator[Line]) -> Iterator[tuple[Hashable, PoolRecord]]:
    """The lines that bring responses, under their document; not those that repeat them for another filter."""
    filters: dict[Hashable, Any] = {}
    seen: set[Hashable] = set()
    for line in lines:
        key = _document_key(line.value)
        record = _document(line)
        content = (key, hash(tuple(record.responses)))
        if "filter" in line.value:
            repeats = filters.setdefault(key, line.value["filter"]) != line.value["filter"]
        else:
            repeats = content in seen
        seen.add(content)
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
        reference=line.value.get("target"),
        more_ids=first_texts(doc, IDS),
        # The model's prompt may hold other problems as examples: it counts only where the document has none.
        more_prompts=first_texts(doc, PROMPTS) or tuple(_model_prompts(line.value.get("arguments"))),
    )


def _model_prompts(arguments: Any) -> Iterator[str]:
    """The prompts that the model was given: `[[prompt, options]]`, from 0.4.3 on {"gen_args_0": {"arg_0": prompt}}."""
    requests = arguments.values() if isinstance(arguments, dict) else arguments
    for request in requests if isinstance(requests, Iterable) else ():
        prompt = request.get("arg_0") if isinstance(request, dict) else request
        while isinstance(prompt, list) and prompt:
            prompt = prompt[0]
        if isinstance(prompt, str):
            yield _chat_text(prompt)


def _chat_text(prompt: str) -> str:
    """A prompt as text; models behind an API are given chat messages as JSON."""
    if not prompt.startswith("[{"):
        return prompt
    try:
        return "\n".join(str(message["content"]) for message in parsed(prompt, "prompt", lenient=True))
    except (ValueError, TypeError, KeyError):
        return prompt
