"""Proteins: a sequence of a given length that should fold into something, as ESMFold judges it (Tuyls et al. 2025).

Example (id `length-64`): the prompt is 64 times `_`, ESM3's fully masked sequence; a response is a sequence of 64 amino
acids, `MKTAYIAKQR...`. It is plausible, and that is `correct`, where ESMFold's pLDDT and pTM both exceed 0.8. The paper
takes the lengths 64, 68, ..., 916 with 2,048 sequences each (arXiv:2510.11686, "Protein sequence generation"), samples
them with ESM3-open by the unconditional protocol of Hayes et al. (a constant temperature of 0.7: the default here, with
every preset and with --paper), embeds them with ESM C 600M, and reports 240.3 samples to the first plausible one at
random and 6.7 with RepExp. It does not say its steps, its alphabet or which mean of pLDDT: all are parameters here.

Data: nothing to fetch; the weights of three models are (`harness run --task proteins --preset quick --dry-run` names
those that are missing). `data` reads JSONL with `prompt` (`_` and letters that are to stay) and perhaps `id`.

Folding is what costs: 20.7 TFLOP at 256 residues, 403 at 916. So the raw figures are kept by themselves
(`STORE/measure`), by what measured them and not by thresholds: `proteins:ptm_min=0.7` folds nothing anew. They stand in
each verdict's reason too, never in `answer`, which selectors see.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness import HarnessError, Problem, Task, Verdict, correct, error, hookimpl, wrong
from harness.errors import did_you_mean
from harness.hookspecs import Register
from harness.records import Weights
from harness.system.json_lines import read_lines

if TYPE_CHECKING:
    from harness_plugins.proteins.esmfold import EsmFold

LONGEST = 1022  # ESMFold's
TEMPERATURE = (
    0.7  # constant, of ESM3's unconditional generation (Hayes et al., Science 2025), to which the paper refers
)
LETTERS = frozenset("ACDEFGHIKLMNPQRSTVWYXBUZO")
LENGTHS = {"quick": "64..256:64", "small": "64..256:16", "paper": "64..916:4"}
ANY = "any"  # the split, and its one problem, of sequences of any length: those made elsewhere


@dataclass(frozen=True)
class Proteins(Task):
    """Sequences of each length, plausible where ESMFold's pLDDT and pTM both exceed their thresholds.

    length              of split `test`: 64, 64+128, 64..256:64 (the last included, where it is met)
    plddt_min, ptm_min  what the figures must exceed; moved, they fold nothing anew
    plddt_mean          over "atoms" or "ca"
    verifier            a hub id or folder with ESMFold; `verifier_revision` of the hub's
    device              "auto" (a GPU if there is one), "cpu", "cuda", ...
    test_weights        take a verifier of no published size, and mark all that it makes
    """

    n = 64
    max_tokens = LONGEST
    splits = ("test", *LENGTHS, ANY)
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
        """`1`, and the hash of a verifier's folder."""
        folder = self.measurer().copy.folder
        return "1" if folder is None else f"1 {self.measurer().copy.commit()}"

    @property
    def revision(self) -> str:
        """`1` for lengths, else the file's hash."""
        if self.data is None:
            return "1"
        path = Path(self.data)
        if not path.is_file():
            raise HarnessError(f"proteins: data: no such file {self.data!r}")
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"

    def problems(self, split: str) -> list[Problem]:
        """A problem a length, ascending; those of a file in its order; the one of `any`, which asks for no length."""
        if split not in self.splits:
            raise HarnessError(f"proteins: no split {split!r} {did_you_mean(split, self.splits)}")
        if split == ANY:
            return [Problem(ANY, "")]
        if self.data is not None:
            return _problems_in(Path(self.data))
        return [Problem(f"length-{n}", "_" * n) for n in lengths(LENGTHS.get(split, self.length))]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Plausible or not; folds the sequence."""
        return self.verify_all(problem, [response])[0]

    def verify_all(self, problem: Problem, responses: Sequence[str]) -> list[Verdict]:
        """The verdicts on many sequences; those that could not be an answer are not folded."""
        asked = self.measurable(problem, list(dict.fromkeys(responses)))
        figures = dict(zip(asked, self.measurer().measure(asked), strict=True)) if asked else {}
        return [self.judge(problem, text, figures.get(text, {})) for text in responses]

    def measurable(self, problem: Problem, responses: Sequence[str]) -> list[str]:
        """Those that are not wrong whatever they fold into."""
        return [text for text in responses if not fault(problem, text)]

    def measurer(self) -> EsmFold:
        """ESMFold; the same one each time, since it holds a model."""
        return self._folding

    def judge(self, problem: Problem, response: str, figures: Mapping[str, float]) -> Verdict:
        """The verdict by the thresholds, its reason the figures: `plddt=0.834512 ptm=0.790011`."""
        reason = fault(problem, response)
        if reason:
            return wrong(reason)
        plddt, ptm = figures.get("plddt", math.nan), figures.get("ptm", math.nan)
        said = f"plddt={plddt:.6f} ptm={ptm:.6f}"
        if not (math.isfinite(plddt) and math.isfinite(ptm)):
            return error(f"no figures: {said}")
        return correct(said) if plddt > self.plddt_min and ptm > self.ptm_min else wrong(said)

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None:
        """About how long folding so many sequences of each problem takes, from a probe; None for unknown lengths."""
        by_length: dict[int, int] = {}
        for problem, count in counts:
            by_length[len(problem.prompt)] = by_length.get(len(problem.prompt), 0) + count
        return None if 0 in by_length else self.measurer().seconds(by_length)

    def outlook(self, problems: Sequence[Problem], n: int) -> str:
        """What a run takes, by arithmetic alone: said where the weights are missing, so that nothing can be timed."""
        from harness_plugins.proteins.esmfold import operations

        total = n * sum(operations(len(problem.prompt)) for problem in problems)
        return (
            f"proteins: {len(problems)} lengths x {n:,} = {n * len(problems):,} sequences to fold, {total:,.0f} TFLOP: "
            f"by arithmetic {_hours(total, 20)} to {_hours(total, 3.5)} GPU-hours (20 to 3.5 TFLOPS, not timed)"
        )

    def check(self, unsafe_exec: bool = False) -> str:
        """Refuse where the verifier's weights are not here."""
        self.measurer().check()
        return ""

    def weights(self) -> list[Weights]:
        """The verifier's."""
        return self.measurer().weights()

    def conditions(self) -> Mapping[str, str]:
        """Whose figures the verdicts go by."""
        return {"verifier": self.measurer().copy.name}

    @cached_property
    def _folding(self) -> EsmFold:
        from harness_plugins.proteins.esmfold import EsmFold

        return EsmFold(self.verifier, self.verifier_revision, self.plddt_mean, self.device, self.test_weights)

    def __getstate__(self) -> dict[str, Any]:
        """Without the verifier's model."""
        return {name: value for name, value in self.__dict__.items() if name != "_folding"}


def lengths(text: str) -> list[int]:
    """The lengths that `64`, `64+128` or `64..256:64` name, ascending, each once."""
    found: set[int] = set()
    for part in text.split("+"):
        match = re.fullmatch(r"(\d+)(?:\.\.(\d+)(?::(\d+))?)?", part.strip())
        if not match:
            raise HarnessError(f"proteins: length is written 64, 64+128 or 64..916:4, got {text!r}")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if not 1 <= first <= last <= LONGEST or step < 1:
            raise HarnessError(f"proteins: lengths must ascend within 1..{LONGEST}, by at least 1, got {part!r}")
        found |= set(range(first, last + 1, step))
    return sorted(found)


def fault(problem: Problem, response: str) -> str:
    """Why a response cannot be an answer whatever it folds into; "" where it may be one."""
    for place, letter in enumerate(response, 1):
        if letter not in LETTERS:
            return f"no amino acid: {letter!r} at {place}"
    if not 1 <= len(response) <= LONGEST:
        return f"length {len(response)} is outside 1..{LONGEST}"
    if problem.prompt and len(response) != len(problem.prompt):
        return f"length {len(response)}, asked for {len(problem.prompt)}"
    given = zip(problem.prompt, response, strict=bool(problem.prompt))
    changed = next((place for place, (one, other) in enumerate(given, 1) if one not in ("_", other)), None)
    return f"the letter at {changed} was given" if changed else ""


def _problems_in(path: Path) -> list[Problem]:
    found: list[Problem] = []
    for line in read_lines(path, "proteins: data"):
        prompt = line.value.get("prompt")
        if not isinstance(prompt, str) or not re.fullmatch("[_ACDEFGHIKLMNPQRSTVWY]+", prompt) or "_" not in prompt:
            raise HarnessError(f"{line.where}: prompt must be a sequence of _ and amino acids, got {prompt!r:.60}")
        found.append(Problem(str(line.value.get("id") or f"prompt-{line.number}"), prompt))
    _require_distinct(path, (problem.id for problem in found))
    return found


def _require_distinct(path: Path, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise HarnessError(f"proteins: data {path}: two lines have the id {name!r}")
        seen.add(name)


def _hours(tflop: float, tflops: float) -> str:
    hours = tflop / tflops / 3600
    return f"{hours:,.1f}" if hours < 10 else f"{hours:,.0f}"


@hookimpl
def register_tasks(register: Register) -> None:
    """Register `proteins`."""
    register("proteins", Proteins)
