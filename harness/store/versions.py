"""The version of each stage's core code, which no key contains although it decides results.

A component's key holds a hash of its code (`source_hash`), so after an edit of a selector or a grader its results are
computed again. Core code is not hashed, because then every edit would invalidate everything. So raise a number below in
the commit after which a stage gives other results from the same inputs, and only then; older results are then unused.

pool        `stages.sample`, `missing_rows`, the readers of pools; and the engines. No key contains their code, because
            pools are expensive: raise it too if a built-in engine gives other responses from the same seeds
embedding   `stages.embed`, `stages.project`, and how the engines take hidden states
score       `stages.response_scores`
verdict     `stages.verify`: `graded`, `judged`
graded      the same, for the verdicts that all pools share
answer      `stages.answers`
measure     `stages.measure`
audit       `stages.audit`
chance      `stages.chance`
ranking     `stages.rank`, centring, the trials' streams of random numbers
sequence    `running.until_correct`
stopped     `running.until_correct`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STAGES = {
    "pool": 1,
    "embedding": 1,
    "score": 1,
    "verdict": 1,
    "graded": 1,
    "answer": 1,
    "measure": 1,
    "audit": 1,
    "chance": 1,
    "ranking": 1,
    "sequence": 1,
    "stopped": 1,
}


def versioned(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a stage with its version as "stage_version"; the first version is not written.

    So pools that were made before versions existed keep their keys; they are expensive.
    """
    version = STAGES[kind]
    return {**inputs, "stage_version": version} if version > 1 else dict(inputs)
