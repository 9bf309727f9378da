"""Engine `esm3`: protein sequences from ESM3-open (Hayes et al., Science 2025), by iterative unmasking.

A prompt is a sequence with `_` for each missing letter; a fully masked one of length L is L times `_`. Each of `steps`
steps passes the whole sequence through the model, and fills some of the masked positions, chosen at random (`child`,
which runs in the environment that has `esm`). Row i of a problem has its own random
stream, from (seed, i).

Annealing is the default of esm and of this engine: the temperature falls (at 1: to 0 with the square of the
remaining steps), so temperature 1 is plain sampling only with `annealing=false`. Task `proteins` sets `annealing=false`
and a temperature of 0.7, ESM3's unconditional protocol, which the paper refers to; the paper does not state its steps.
esm may also emit `X B U Z O . -` (`alphabet=all`); this engine's default samples only the 20 amino acids.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from harness import HarnessError, Message, Responses, hookimpl
from harness.hookspecs import Register
from harness.records import SampleRequest, Weights
from harness.system.json_text import read, shaped
from harness.system.progress import doing
from harness_plugins.environments.second_environment import SecondEnvironment
from harness_plugins.proteins.published import ESM3, Copy

from ..row_chunks import Chunks

VARIABLE = "HARNESS_ESM_PYTHON"
# No extra of the harness names `esm`: every version of it requires transformers below 5 (3.2.1 below 4.48.2), so the
# harness could not be installed. Installed without its requirements it runs with transformers 5.23.
MAKE = (
    "make one: python -m venv .venv-esm && .venv-esm/bin/pip install torch transformers && .venv-esm/bin/pip install "
    "--no-deps esm==3.2.1.post1 && .venv-esm/bin/pip install attrs biopython biotite brotli cloudpathlib einops httpx "
    "msgpack-numpy pandas tenacity zstd"
)
PLACES = SecondEnvironment("esm3", "esm", VARIABLE, Path(".venv-esm") / "bin" / "python", MAKE)
VERSIONS = """
import json, importlib.metadata as m, torch
there = {each.metadata["Name"]: each.version for each in m.distributions(name="esm")}
print(json.dumps({"esm": there.get("esm"), "torch": torch.__version__, "cuda": torch.cuda.is_available()}))
"""
LETTERS = "ACDEFGHIKLMNPQRSTVWY"
ALPHABETS = {"canonical": LETTERS, "all": LETTERS + "XBUZO.-"}
WEIGHTS = Path("data") / "weights" / "esm3_sm_open_v1.pth"
SIZES = "sizes.json"  # beside `data`: the sizes of a checkpoint that is not the published one
CONTEXT = 2048


@cache
def installed(python: Path) -> dict[str, Any]:
    """The versions of `esm` and `torch`, and whether torch finds a GPU (`cuda`); HarnessError without `esm`."""
    versions: dict[str, Any] = PLACES.answer(python, VERSIONS)
    if versions["esm"] is None:
        raise HarnessError(f"esm3: {python} has no esm: {MAKE}")
    return versions


@hookimpl
def register_engines(register: Register) -> None:
    """Register by name, so that listing engines imports nothing heavy."""
    register("esm3", "harness_plugins.engines.esm3.engine:Esm3")


@dataclass(eq=False)
class Esm3:
    """ESM3-open, in a separate Python environment.

    model         a hub id, or a folder with data/weights/esm3_sm_open_v1.pth; None: biohub/esm3-sm-open-v1
    revision      of a hub model: branch, tag or commit
    steps         forward passes per sequence, at most its number of masked positions
    annealing     let the temperature fall to 0 over the steps
    alphabet      "canonical" (the 20 amino acids) or "all" (X B U Z O . - too)
    batch         sequences sampled at once; halved if memory runs out. Changes responses by rounding only
    device        "auto" (a GPU if there is one), "cpu", "cuda", ...
    python        the interpreter that has esm; None: HARNESS_ESM_PYTHON, this one, .venv-esm
    test_weights  accept a checkpoint of no published size, and mark its results
    """

    model: str | None = None
    revision: str | None = None
    steps: int = 20
    annealing: bool = True
    alphabet: str = "canonical"
    batch: int = 64
    device: str = "auto"
    python: str | None = None
    test_weights: bool = False

    steers = False
    states = ()

    def __post_init__(self) -> None:
        if self.alphabet not in ALPHABETS:
            raise HarnessError(f"esm3: alphabet must be one of {', '.join(ALPHABETS)}, got {self.alphabet!r}")
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise HarnessError(f"esm3: {name} must be at least 1, got {getattr(self, name)}")
        self._copy = Copy("esm3", ESM3, self.model, self.revision, self.test_weights)
        self._chunks = Chunks(self.batch, "esm3")
        if self._copy.folder is not None:
            self._copy.check_size(_sizes_in(self._copy.folder))

    @property
    def name(self) -> str:
        """The model's name as tables show it."""
        return self._copy.name

    def weights(self) -> list[Weights]:
        """Return the licence and location of ESM3-open's weights."""
        return [self._copy.weights()]

    def identity(self) -> Mapping[str, Any]:
        """Return the weights, the sampling settings, and the version of esm."""
        versions = installed(self._python)
        on_gpu = versions["cuda"] if self.device == "auto" else self.device.startswith("cuda")
        return {
            "engine": "esm3",
            "model": self.name,
            "revision": self._copy.commit([".pth"]),
            "esm": versions["esm"],
            "dtype": "bfloat16" if on_gpu else "float32",
            "steps": self.steps,
            "annealing": self.annealing,
            "alphabet": self.alphabet,
            "schedule": "cosine",
            "strategy": "random",
            "logprob_kind": "sum over letters, each given those before it in the order of unmasking; temperature 1",
        }

    def problems_per_call(self, n: int) -> int:
        """Return 1: a batch holds only sequences of equal length."""
        return 1

    def check(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> None:
        """Raise HarnessError for prompts that are not masked sequences, or longer than max_tokens or the context."""
        for prompt in prompts:
            length = len(masked(prompt))
            if length > min(max_tokens, CONTEXT):
                limit = f"--max-tokens {max_tokens}" if max_tokens < CONTEXT else f"ESM3's context of {CONTEXT}"
                raise HarnessError(f"esm3: a sequence of {length} is longer than {limit}")

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample n sequences to each prompt, in batches of one length; see `harness.records.SampleRequest`."""
        sampler = request.sampler
        if sampler.steers or sampler.min_p or sampler.top_k:
            raise HarnessError(
                f"esm3: takes temperature and top_p, no min_p, no top_k and no sampler that steers, got {sampler!r:.80}"
            )
        if request.states:
            self.encode()
        self.check(request.prompts, request.max_tokens)
        sampled = []
        for j, (prompt, seed) in enumerate(zip(request.prompts, request.seeds, strict=True)):
            wanted = {"do": "sample", "prompt": masked(prompt), "steps": self.steps, "annealing": self.annealing}
            wanted |= {"temperature": sampler.temperature, "top_p": sampler.top_p, "letters": ALPHABETS[self.alphabet]}

            def answered(rows: Sequence[int], wanted: Any = wanted, seed: int = seed) -> dict[str, Any]:
                return self._child.ask(**wanted, rows=[[seed, row] for row in rows])

            columns: dict[str, list[Any]] = {"sequences": [], "tokens": [], "logprobs": []}
            for chunk, part in self._chunks.over(range(request.n), answered):
                for name, values in columns.items():
                    values += part[name]
                request.tokens(len(chunk) * len(masked(prompt)))
                request.report(len(chunk))
            sampled.append(
                Responses(
                    texts=columns["sequences"],
                    finish=["stop"] * request.n,
                    lengths=np.full(request.n, len(masked(prompt)), np.int64),
                    logprobs=np.array(columns["logprobs"], np.float64),
                    token_ids=columns["tokens"],
                )
            )
            request.done(j, sampled[j])
        return sampled

    def encode(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise HarnessError: this engine gives no hidden states."""
        raise HarnessError("esm3: gives no hidden states: choose --embedder esmc")

    @cached_property
    def _python(self) -> Path:
        return PLACES.find(self.python, find_spec)

    @cached_property
    def _child(self) -> Child:
        folder = self._copy.folder or self._fetched()
        with doing("loading model ESM3"):
            child = Child(self._python)
            child.ask(do="load", weights=str(folder / WEIGHTS), device=self.device, sizes=_sizes_in(folder))
        return child

    def _fetched(self) -> Path:
        """Download the needed part of the hub's repository; return its folder."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError

        from harness.system.extras import hub_is_out_of_reach

        source = self._copy.source
        only = {"allow_patterns": [str(WEIGHTS)], "local_files_only": hub_is_out_of_reach()}
        try:
            return Path(snapshot_download(source, revision=self._copy.commit(), **only))
        except (OSError, HfHubHTTPError) as failure:
            reason = " ".join(str(failure).split())[:300]
            terms = f"if it is gated, accept its terms at https://huggingface.co/{source}, then `hf auth login`"
            raise HarnessError(f"esm3: {source} cannot be fetched: {reason}: {terms}") from failure

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the child, which stays with the process that started it."""
        return {name: value for name, value in self.__dict__.items() if name != "_child"}


class Child:
    """The process that runs ESM3; it ends with this object."""

    def __init__(self, python: Path) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (open as long as the process)
        command = [str(python), str(Path(__file__).with_name("child.py"))]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._log}
        self._process = subprocess.Popen(command, text=True, bufsize=1, **pipes)
        self._end = weakref.finalize(self, _end, self._process, self._log)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer; MemoryError if memory ran out, HarnessError if it failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._log.seek(0)
            lines = self._log.read().strip().splitlines()
            reason = lines[-1][:200] if lines else f"exit status {self._process.wait()}"
            raise HarnessError(f"esm3: its process ended ({reason})")
        answer: dict[str, Any] = json.loads(line)
        if "out_of_memory" in answer:
            raise MemoryError(answer["out_of_memory"])
        if "error" in answer:
            raise HarnessError(f"esm3: {answer['error']}")
        return answer


def _end(process: Any, log: Any) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, log):
        with contextlib.suppress(OSError):  # input that a dead child did not read
            stream.close()


def masked(prompt: Sequence[Message]) -> str:
    """Return the last message without blanks: `_` to fill in, and amino acids; HarnessError if it is anything else."""
    text = "".join(prompt[-1]["content"].split()) if prompt else ""
    wrong = sorted(set(text) - set(LETTERS) - {"_"})
    if wrong or "_" not in text:
        fault = f"has {''.join(wrong)[:20]!r}" if wrong else "has no _ to fill in"
        raise HarnessError(f"esm3: a prompt is a sequence of _ and amino acids; {text[:40]!r} {fault}")
    return text


def _sizes_in(folder: Path) -> dict[str, int]:
    """Return the model's sizes: from `sizes.json` if it exists, else the published ones."""
    if not (folder / WEIGHTS).is_file():
        raise HarnessError(f"esm3: {folder} has no {WEIGHTS}: give a clone of {ESM3.repo}")
    path = folder / SIZES
    return shaped(read(path, "esm3:"), dict[str, int], f"esm3: {path}") if path.is_file() else dict(ESM3.sizes[0])
