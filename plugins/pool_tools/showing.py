"""Responses of a pool of the store with their verdicts and answers, for `harness pool show`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.store import shards
from harness.store.lookup import graded_folder, stored_pool


def show(pool: str, root: Path, problem_id: str | None = None, statuses: Collection[str] = ()) -> dict[str, Any]:
    """Return the responses of a pool of the store: "pool", its key; "graded", whether it has verdicts; "problems".

    A problem has `problem_id`, `prompt` and `responses`, and these have `index`, `verdict` ("correct", "wrong",
    "error"), `reason`, `route`, `answer` (all None without a verdict; the newest grading counts) and `text`. Problems
    without a response to show are left out.

    pool        the pool's key, or its beginning; HarnessError for a file
    problem_id  only this problem; HarnessError if the pool lacks it
    statuses    only responses with these verdicts; none: all. HarnessError if the pool has no verdicts
    """
    if Path(pool).is_file():
        raise HarnessError(
            f"pool show: {pool} is a file: give its key in the store, which the last line of `harness run --pool` says"
        )
    folder = stored_pool(root, pool)
    graded = graded_folder(root, folder.name)
    if statuses and graded is None:
        raise HarnessError(f"pool show: pool {folder.name} has no verdicts: grade it by `harness pool audit`")
    ids: list[str] = []
    problems = []
    for path in sorted(folder.glob("*.parquet")):
        about = shards.read_about(path)
        ids.append(about["problem_id"])
        if problem_id in (None, ids[-1]):
            verdicts = graded / path.name if graded else None
            listed = [each for each in _responses(path, verdicts) if not statuses or each["verdict"] in statuses]
            problems += [{**about, "responses": listed}] if listed else []
    if problem_id is not None and problem_id not in ids:
        guess = did_you_mean(problem_id, ids).replace("installed", "there")
        raise HarnessError(f"pool show: pool {folder.name} has no problem {problem_id!r} {guess}")
    return {"pool": folder.name, "graded": graded is not None, "problems": problems}


def _responses(path: Path, graded: Path | None) -> Iterator[dict[str, Any]]:
    texts = shards.read_responses(path).texts
    verdicts, answers = shards.read_full_verdicts(graded) if graded and graded.exists() else ([], [])
    for index, text in enumerate(texts):
        verdict = verdicts[index] if index < len(verdicts) else None
        yield {
            "index": index,
            "verdict": verdict and verdict.status,
            "reason": verdict and verdict.reason,
            "route": verdict and verdict.route,
            "answer": answers[index] if verdict else None,
            "text": text,
        }
