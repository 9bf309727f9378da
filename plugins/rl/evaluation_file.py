"""The file of `harness rl eval`: what it may hold, and how it is read. It may be a stranger's, or edited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from harness.errors import HarnessError
from harness.results.cells import EVALUATION
from harness.system import json_text

KIND = "diversity-harness rl eval"
SCHEMA = 1
MOST = 100_000  # responses to a question: pass@k is computed for every k up to it
FILE = f"{EVALUATION}.json"


class PolicyFile(TypedDict):
    """What an evaluation's file says of one policy: its name, and what it solved of each problem."""

    bonus: str
    trainer: NotRequired[str | None]
    seed: NotRequired[int | None]
    step: NotRequired[int | None]
    dev_pass_at_1: NotRequired[float | None]
    pool: NotRequired[str]
    c: list[int]
    c_strict: NotRequired[list[int]]
    errors: NotRequired[int]
    likelihoods: NotRequired[list[float | None]]


class EvaluationFile(TypedDict):
    """What an evaluation's file says: `evaluate`."""

    kind: Literal["diversity-harness rl eval"]
    schema: Literal[1]
    task: str
    split: str
    model: str
    reward: NotRequired[str]
    n: Annotated[int, Field(ge=1, le=MOST)]
    problems: Annotated[list[str], Field(min_length=1)]
    policies: Annotated[list[PolicyFile], Field(min_length=1)]


def read(path: Path) -> dict[str, Any]:
    """Read an evaluation from its file, or from a folder that holds the file."""
    file = path / FILE if path.is_dir() else path
    if not file.exists():
        raise HarnessError(f"rl eval: {file} is not there: `harness rl eval RUNS --out FOLDER` writes it")
    again = "write it again with `harness rl eval`"
    value = json_text.read(file, "rl eval:", again)
    if not isinstance(value, dict) or value.get("kind") != KIND or value.get("schema") != SCHEMA:
        raise HarnessError(f"rl eval: {file} is no evaluation of schema {SCHEMA}: write it with `harness rl eval`")
    evaluation = json_text.shaped(value, EvaluationFile, f"rl eval: {file}", again)
    for place, policy in enumerate(evaluation["policies"]):
        for counts in (policy["c"], policy.get("c_strict", policy["c"])):
            if len(counts) != len(evaluation["problems"]) or not all(0 <= c <= evaluation["n"] for c in counts):
                raise HarnessError(
                    f"rl eval: {file}: policies.{place} must count 0 to {evaluation['n']} correct responses of each of "
                    f"the {len(evaluation['problems'])} problems; {again}"
                )
    return dict(evaluation)
