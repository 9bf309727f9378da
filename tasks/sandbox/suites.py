"""Suite, the inputs that programs run on, and Run, the result of one program."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness import HarnessError

LINE_BYTES = 300  # of a line, without a result's text: a time, or a status and a detail


@dataclass(frozen=True)
class Suite:
    """The inputs that programs are called on, and the limits of a run; it has no expected outputs.

    key           the suite's name in messages
    entry_point   the function that a program must define
    inputs        the positional arguments of each test: plain Python data, which is pickled into the sandbox, not out
    cpu_limits_s  CPU seconds of each test
    digest        for each test, whether its result returns as a digest, `h` and a SHA-256 (`canonical.digest`); for
                  results of many MB
    memory_bytes  address space in addition to the bare interpreter's
    output_bytes  limit on all results' texts together
    total_cpu_s   CPU seconds of the whole run
    """

    key: str
    entry_point: str
    inputs: Sequence[Sequence[Any]]
    cpu_limits_s: Sequence[float]
    digest: Sequence[bool] = ()
    memory_bytes: int = 1 << 30
    output_bytes: int = 4 << 20
    total_cpu_s: float = 60.0

    def __post_init__(self) -> None:
        tests = len(self.inputs)
        for name, column in (("cpu_limits_s", self.cpu_limits_s), ("digest", self.digest or self.inputs)):
            if len(column) != tests:
                raise HarnessError(f"suite {self.key}: {tests} inputs but {len(column)} {name}")
        for name, bound in (("memory_bytes", self.memory_bytes), ("output_bytes", self.output_bytes)):
            if bound < 1:
                raise HarnessError(f"suite {self.key}: {name} must be > 0, got {bound}")
        if min([*self.cpu_limits_s, self.total_cpu_s]) <= 0:
            raise HarnessError(f"suite {self.key}: CPU limits must be > 0")

    @cached_property
    def packed(self) -> tuple[str, bytes]:
        """A hash of the contents, and the contents as they are sent into the sandbox, each input pickled separately."""
        try:
            inputs = [pickle.dumps(tuple(arguments), 4) for arguments in self.inputs]
        except Exception as problem:
            raise HarnessError(f"suite {self.key}: inputs must be plain Python data ({problem})") from None
        content = {
            "entry_point": self.entry_point,
            "inputs": inputs,
            "cpu_limits_s": [float(limit) for limit in self.cpu_limits_s],
            "digest": [bool(as_digest) for as_digest in self.digest] or [False] * len(inputs),
            "memory_bytes": int(self.memory_bytes),
            "output_bytes": int(self.output_bytes),
            "pipe_bytes": int(self.output_bytes) + LINE_BYTES * (len(inputs) + 2),
            "total_cpu_s": float(self.total_cpu_s),
        }
        blob = pickle.dumps(content, 4)
        return hashlib.sha256(blob).hexdigest(), blob


@dataclass
class Run:
    """How one program ran.

    status   "ok" (all tests ran, though some may have raised), or why it ended early: "syntax", "raised" (while it was
             defined), "missing" (no entry point), "timeout" (CPU time), "stalled" (wall time), "memory", "output" (too
             much), "killed" (it crashed or exited), "stopped" (by the judge, or because a test raised); "error" is a
             fault of the sandbox
    results  the canonical texts of the results, in order; `E` and the exception's name for a test that raised. If a
             judge has seen them, only their first 200 characters
    cpu_s    the CPU seconds of each of these tests; a program can forge its own
    detail   more about the status, for a reader
    process_cpu_s  the CPU seconds of the program's whole process, as the kernel counts them
    """

    status: str
    results: list[str] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    detail: str = ""
    process_cpu_s: float = 0.0

    @property
    def lacks_a_name(self) -> bool:
        """Whether a NameError ended the program or one of its tests."""
        return (self.status, self.detail) == ("raised", "NameError") or "ENameError" in self.results
