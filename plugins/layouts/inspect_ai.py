"""Pools from inspect_ai logs (.eval or .json), read by its own reader: the epochs of a sample are its responses.

A sample's `id` is the problem's where it is a text, `sample-7` where it is a number; every choice of every epoch is one
response. A sample that ended in an error or has no answer is no response: it is left out, and counted in one line. A
log without any response is refused. An answer that the token limit or the model's context ended is a cut-off one
(`finish` "length"). Written against inspect_ai 0.3.285.
"""

from __future__ import annotations

import importlib
import re
import struct
import zipfile
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.pools.record import PoolRecord, Say, grouped, is_number
from harness.system import extras
from harness.system.files import RATIO, beginning, most_expanded

_ZIP = b"PK\x03\x04"
_CUT_OFF = ("max_tokens", "model_length")  # stop reasons
_JSON_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"')


class InspectLog:
    """Logs of inspect_ai (.eval, .json); the epochs of a sample are its responses. Needs `pip install inspect_ai`."""

    name, holds = "inspect_ai", "inspect_ai logs"
    scores = True

    def fits(self, path: Path) -> bool:
        """Return whether a file begins as logs do: as a zip archive, or as JSON with keys `version` and `status`."""
        start = beginning(path) if path.is_file() else b""
        return start.startswith(_ZIP) or _JSON_LOG.match(start) is not None

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """Read a log and return an iterator of its records (`records_of`).

        HarnessError if inspect_ai cannot read it, or no sample was answered. `say` gets a line on what is not taken.
        """
        is_archive = beginning(path, 4) == _ZIP
        if is_archive:
            _check_archive(path)
        extras.require(f"pool {path}: an inspect_ai log", "inspect_ai")
        reader = importlib.import_module("inspect_ai.log")
        try:
            kind = "eval" if is_archive else "json"
            log = reader.read_eval_log(str(path), resolve_attachments=True, format=kind)
        except Exception as failure:  # whatever its reader raises on a broken log
            fault = " ".join(str(failure).split())[:200]
            raise HarnessError(f"pool {path}: inspect_ai cannot read this log ({fault})") from failure
        samples = log.samples or []
        if not any(map(_is_answered, samples)):
            errors = [" ".join(each.error.message.split())[:200] for each in samples if each.error]
            fault = f" (the first ended with: {errors[0]})" if errors else ""
            raise HarnessError(
                f"pool {path}: an inspect_ai log (status {log.status}) in which none of {len(samples)} samples was "
                f"answered{fault}: give a log with responses"
            )
        say("pool: read as an inspect_ai log; its scores are not taken as verdicts (numbers are taken as scores)")
        return records_of(samples, say)


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            expanded = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, struct.error) as failure:
        raise HarnessError(f"pool {path}: a broken zip archive ({failure})") from failure
    if expanded > most_expanded(path.stat().st_size):
        raise HarnessError(f"pool {path}: expands to {expanded:,} bytes, over {RATIO} times its size: no log does that")
    if not any(name == "header.json" or name.startswith("_journal/") for name in names):
        raise HarnessError(f"pool {path}: a zip archive, but no inspect_ai log (no header.json): unpack it")


def _is_answered(sample: Any) -> bool:
    return not sample.error and bool(sample.output.choices)


def records_of(samples: list[Any], say: Say) -> Iterator[PoolRecord]:
    """Yield a record per sample id, its responses sorted by epoch; records are in order of first appearance.

    Samples that ended in an error or without an answer are left out, and `say` gets a line that counts them.
    """
    answered = sorted(filter(_is_answered, samples), key=lambda sample: sample.epoch)
    if len(answered) < len(samples):
        say(f"pool: {len(samples) - len(answered)} of {len(samples)} samples ended without an answer: no responses")

    def record(sample: Any) -> tuple[Hashable, PoolRecord]:
        choices, prompt = sample.output.choices, sample.input
        # The scorers' numbers; not their letters and words, nor what is of several choices together.
        given = (getattr(sample, "scores", None) or {}) if len(choices) == 1 else {}
        return sample.id, PoolRecord(
            problem_id=sample.id if isinstance(sample.id, str) else f"sample-{sample.id}",
            responses=[choice.message.text for choice in choices],
            finish=["length" if choice.stop_reason in _CUT_OFF else "stop" for choice in choices],
            reference=sample.target,
            more_prompts=[prompt if isinstance(prompt, str) else "\n".join(message.text for message in prompt)],
            scores={name: [score.value] for name, score in given.items() if is_number(score.value)},
        )

    yield from grouped(map(record, answered))
