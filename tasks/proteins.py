"""Proteins: sequences of a given length that should fold into a stable structure, as ESMFold judges it.

How a response is graded: it must be a sequence of amino acids of the prompt's length. ESMFold folds it, and it is
correct (plausible) if ESMFold's confidence values pLDDT and pTM both exceed 0.8 (`plddt_min`, `ptm_min`). The two
values are in the verdict's reason, never in `answer`, which selectors see.

A problem (id `length-64`): the prompt is `_` 64 times, ESM3's fully masked sequence; there is no reference. A response
is a sequence of 64 letters, `MKTAYIAKQR...`.

Data: computed; only the weights of three models are downloaded (`harness run --task proteins --preset quick
--dry-run` names those that are missing). `data` reads JSONL with `prompt` (`_`, and letters that must stay) and perhaps
`id` instead.

The setting is that of Tuyls et al. 2025 (arXiv:2510.11686, "Protein sequence generation"): the lengths 64, 68, ..., 916
with 2,048 sequences each, sampled with ESM3-open by the unconditional protocol of Hayes et al. (a constant temperature
of 0.7, which is the default here, with every preset and with --paper) and embedded with ESM C 600M. It reports 240.3
samples to the first plausible sequence at random and 6.7 with RepExp. It does not give the number of steps, the
alphabet, or which mean of pLDDT it takes: all are parameters here.

Folding is expensive: 20.7 TFLOP at 256 residues, 403 at 916. So the measured values are stored separately
(`STORE/measure`), with a key of the measurement and without the thresholds: `proteins:ptm_min=0.7` folds nothing again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from harness import HarnessError, Problem, Verdict, correct, error, wrong
from harness.contracts import Measured
from harness.errors import did_you_mean
from harness.records import Weights

from .data import sources
from .data.sources import Row

if TYPE_CHECKING:
    from harness_plugins.proteins.esmfold import EsmFold

LONGEST = 1022  # residues, ESMFold's limit
TEMPERATURE = 0.7  # constant; ESM3's unconditional generation (Hayes et al., Science 2025), to which the paper refers
LETTERS = frozenset("ACDEFGHIKLMNPQRSTVWYXBUZO")
LENGTHS = {"quick": "64..256:64", "small": "64..256:16", "paper": "64..916:4"}
ANY = "any"  # a split with one problem, with the same name, for imported sequences of any length


@dataclass(frozen=True)
class Proteins(Measured):
    """Sequences of each length, plausible if ESMFold's pLDDT and pTM both exceed their thresholds.

    length              the lengths of split `test`: 64, 64+128, 64..256:64 (from 64 to 256 in steps of 64)
    plddt_min, ptm_min  what the two values must exceed; changing them folds nothing again
    plddt_mean          the mean of pLDDT over "atoms" or over "ca", the alpha carbons
    verifier            a hub id or a folder with ESMFold; `verifier_revision` is the hub's revision
    device              "auto" (a GPU if there is one), "cpu", "cuda", ...
    test_weights        accept a verifier of no published size, and mark all results made with it
    """

    n = 64
    max_tokens = LONGEST
    splits = ("test", *LENGTHS, ANY)
    sizes: ClassVar[Mapping[str, int]] = {"quick": 4, "small": 13, "paper": 214}
    pools_as = "proteins"
    defaults: ClassVar[Mapping[str, str]] = {
        "engine": "esm3:annealing=false",
        "sampler": f"vanilla:temperature={TEMPERATURE}",
        "embedder": "esmc",
    }
    paper: ClassVar[Mapping[str, Any]] = {
        "split": "paper",
        "n": 2048,
        "max_tokens": LONGEST,
        "sampler": {"temperature": TEMPERATURE},
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {"split": name, "n": n, "selector": ["repexp", "uniform"]}
        for name, n in (("quick", 256), ("small", 512), ("paper", 2048))
    }

    data: str | None = None
    length: str = LENGTHS["quick"]
    plddt_min: float = 0.8
    ptm_min: float = 0.8
    plddt_mean: str = "atoms"
    verifier: str = "facebook/esmfold_v1"
    verifier_revision: str | None = None
    device: str = "auto"
    test_weights: bool = False

    def __post_init__(self) -> None:
        lengths(self.length)
        for name in ("plddt_min", "ptm_min"):
            if not 0 <= getattr(self, name) < 1:
                raise HarnessError(f"proteins: {name} must be in [0, 1), got {getattr(self, name)}")
        if self.plddt_mean not in ("atoms", "ca"):
            raise HarnessError(f"proteins: plddt_mean must be atoms or ca, got {self.plddt_mean!r}")

    @property
    def grader(self) -> str:  # type: ignore[override]
        """Return "1", with the hash of the verifier's folder if it is a local one."""
        folder = self.measurer().copy.folder
        return "1" if folder is None else f"1 {self.measurer().copy.commit()}"

    @property
    def revision(self) -> str:
        return sources.revision("proteins", self.data)

    def problems(self, split: str) -> list[Problem]:
        """Return a problem for each length, ascending; or those of the local file in its order.

        The only problem of split `any` asks for no length.
        """
        if split not in self.splits:
            raise HarnessError(f"proteins: no split {split!r} {did_you_mean(split, self.splits, 'splits')}")
        if split == ANY:
            return [Problem(ANY, "")]
        if self.data is not None:
            return sources.problems(sources.file_rows("proteins", self.data), _problem)
        return [Problem(f"length-{n}", "_" * n) for n in lengths(LENGTHS.get(split, self.length))]

    def measurable(self, problem: Problem, responses: Sequence[str]) -> list[str]:
        """Return the responses that may be answers; the others are wrong however they fold."""
        return [text for text in responses if not fault(problem, text)]

    def measurer(self) -> EsmFold:
        """Return ESMFold; the same object each time, since it holds a model."""
        return _esmfold(self.verifier, self.verifier_revision, self.plddt_mean, self.device, self.test_weights)

    def judge(self, problem: Problem, response: str, values: Mapping[str, float]) -> Verdict:
        """Return the verdict by the thresholds.

        Its reason is the response's fault, or gives the values: `plddt=0.834512 ptm=0.790011`.

        values   {"plddt": ..., "ptm": ...}; if one is missing or not finite, the verdict is an error
        """
        reason = fault(problem, response)
        if reason:
            return wrong(reason)
        plddt, ptm = values.get("plddt", math.nan), values.get("ptm", math.nan)
        reason = f"plddt={plddt:.6f} ptm={ptm:.6f}"
        if not (math.isfinite(plddt) and math.isfinite(ptm)):
            return error(f"no figures: {reason}")
        return correct(reason) if plddt > self.plddt_min and ptm > self.ptm_min else wrong(reason)

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None:
        """Return about how many seconds it takes to fold these sequences, from a short probe; None for split `any`.

        counts   pairs of a problem and how many sequences of its length are to be folded
        """
        by_length: dict[int, int] = {}
        for problem, count in counts:
            by_length[len(problem.prompt)] = by_length.get(len(problem.prompt), 0) + count
        return None if 0 in by_length else self.measurer().seconds(by_length)

    def check(self, unsafe_exec: bool = False) -> str:
        """Return "" (no remark). Raises HarnessError if the verifier's weights are not on this machine."""
        self.measurer().check()
        return ""

    def weights(self) -> list[Weights]:
        return self.measurer().weights()

    def conditions(self) -> Mapping[str, str]:
        return {"verifier": self.measurer().copy.name}


@cache
def _esmfold(*settings: Any) -> EsmFold:
    from harness_plugins.proteins.esmfold import EsmFold

    return EsmFold(*settings)


def lengths(text: str) -> list[int]:
    """Return the lengths that `64`, `64+128` or `64..256:64` names: ascending, each once. Raises HarnessError."""
    named: set[int] = set()
    for part in text.split("+"):
        match = re.fullmatch(r"(\d+)(?:\.\.(\d+)(?::(\d+))?)?", part.strip())
        if not match:
            raise HarnessError(f"proteins: length is written 64, 64+128 or 64..916:4, got {text!r}")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if not 1 <= first <= last <= LONGEST or step < 1:
            raise HarnessError(f"proteins: lengths must ascend within 1..{LONGEST}, by at least 1, got {part!r}")
        named |= set(range(first, last + 1, step))
    return sorted(named)


def fault(problem: Problem, response: str) -> str:
    """Return why a response cannot be an answer however it folds; "" if it may be one."""
    for place, letter in enumerate(response, 1):
        if letter not in LETTERS:
            return f"no amino acid: {letter!r} at {place}"
    if not 1 <= len(response) <= LONGEST:
        return f"length {len(response)} is outside 1..{LONGEST}"
    if problem.prompt and len(response) != len(problem.prompt):
        return f"length {len(response)}, asked for {len(problem.prompt)}"
    pairs = zip(problem.prompt, response, strict=bool(problem.prompt))
    changed = next((place for place, (fixed, letter) in enumerate(pairs, 1) if fixed not in ("_", letter)), None)
    return f"the letter at {changed} was given" if changed else ""


def _problem(row: Row) -> Problem:
    prompt = row.find("prompt")
    if not isinstance(prompt, str) or not re.fullmatch("[_ACDEFGHIKLMNPQRSTVWY]+", prompt) or "_" not in prompt:
        raise row.fault(f"prompt must be a sequence of _ and amino acids, got {prompt!r:.60}")
    return Problem(str(row.find("id") or f"prompt-{row.number + 1}"), prompt)
