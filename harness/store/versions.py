"""The version of each stage's own code: what of the core decides a result, and is hashed into no key.

A component's key holds a hash of its code (`code_hash`), so an edit of a selector or a grader makes its results anew by
itself. The core is left out of that, or every edit would make everything anew. So: raise the number here in the commit
after which a stage makes other results from the same inputs, and then only; what was made before is not used again.

pool        `drawing`, `unanswered`, the readers of pools; and the engines, whose code is in no key, since a pool may
            have cost a fortune: raise it too where a built-in engine makes other responses from the same seeds
embedding   `drawing.embed`, `projection`, and how the engines take hidden states
verdict     `work.graded`, `work.judged`
graded      the same, for the verdicts that all pools share
measure     `measuring`
audit       `work.audit_problems`
chance      `chance`
ranking     `work.rank_problems`, centring, the trials' streams of random numbers
sequence    `sequential`
stopped     `sequential`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STAGES = {
    "pool": 1,
    "embedding": 1,
    "verdict": 1,
    "graded": 1,
    "measure": 1,
    "audit": 1,
    "chance": 1,
    "ranking": 1,
    "sequence": 1,
    "stopped": 1,
}


def versioned(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a stage with its version as "stage_version"; the first version is not written.

    So a pool that was paid for before there were versions keeps its key.
    """
    version = STAGES[kind]
    return {**inputs, "stage_version": version} if version > 1 else dict(inputs)
