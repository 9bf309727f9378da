"""The golden cases: what each runs, and its records, read from outside only: from what commands print, and from cells.

A record is (who, at, fields): `who` names a row by its labels, or a command; `at` a problem, or "row". Nothing here
knows a key, a path inside a store, or a function of the harness other than those of `import harness`, so that the
insides can be built anew under it. `tests/golden/make.py` writes the records to files, and `test_golden.py` compares
with them.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

import harness as api

from .json_lines import write_json_lines
from .paths import ROOT, SHARED, TOY
from .processes import harness_command, run_to_end

GOLDEN = ROOT / "tests" / "golden"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
LABELS = ("task", "split", "model", "engine", "sampler", "embedder", "selector", "trials", "seed")
ENTRY = (
    *("n", "c", "errors", "disputed", "routes", "chance", "maj_at_k", "best_of_k", "ranks", "hits", "orders"),
    *("time", "solved", "tokens"),  # of `--until-correct`
)
# Of a row: keys, what depends on the machine, and what is of the cell's entries.
NOT_OF_A_ROW = (*LABELS, "cell", "cells", "pools", "conditions", "answering", "version", "control", "controls")
# Which kind of machine: floats differ in their last bits between kernels, and picks that are nearly equal with them.
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "transformers", "kmedoids")

Record = tuple[str, str, dict[str, Any]]

FREE = "dedup+length+length:first=long+in-order+uniform"
BY_ANSWER = "answer-coverage+answer-round-robin+dedup:by=answer+outcome-ucb+outcome-ucb-seen+majority"
ALL = "repexp+facility-location+dpp-map+kcenter+kmeans-pp+kmeans+kmedoids+k-dpp+rnd+ngram-coverage+gp-ucb+gp-thompson"
ALL += f"+{FREE}+{BY_ANSWER}"


@dataclass(frozen=True)
class Case:
    """One golden file. `records(folder)` runs the case in an empty folder."""

    name: str
    records: Callable[[Path], Iterable[Record]]
    slow: bool
    needs: str  # "shared": the folder of third parties' data; "smollm2": the model

    @property
    def path(self) -> Path:
        """Its golden file."""
        return GOLDEN / f"{self.name}.jsonl.gz"


CASES: dict[str, Case] = {}


def case(slow: bool = True, needs: str = "") -> Callable[[Callable[[Path], Iterable[Record]]], None]:
    """Keep what gives the records as a case of the function's name."""

    def keep(records: Callable[[Path], Iterable[Record]]) -> None:
        name = records.__name__.replace("_", "-")
        CASES[name] = Case(name, records, slow, needs)

    return keep


# Read from outside.


def command(folder: Path, arguments: tuple[object, ...]) -> tuple[int, str, str]:
    """Exit code, output and messages of `harness ARGUMENTS` in `folder`. Tests put another function here."""
    ended = run_to_end(harness_command(*arguments), cwd=folder, env=ENVIRONMENT)
    return ended.returncode, ended.stdout, ended.stderr


def harness(folder: Path, *arguments: object) -> Any:
    """The JSON that `harness ARGUMENTS` prints, run in `folder`; AssertionError if it exits otherwise."""
    status, out, messages = command(folder, (*arguments, "--yes", "--json"))
    assert status == 0, f"harness {' '.join(map(str, arguments))}: exit code {status}: {messages}"
    return json.loads(out)


def run(folder: Path, *options: object, store: str = "runs") -> Iterator[Record]:
    """The records of `harness run OPTIONS`: the rows that it prints, then all cells of its store.

    A cell gives a record for each problem, as does what `--until-correct` records; controls' cells give none.
    """
    yield from rows(harness(folder, "run", "--store", store, *options))
    for path in sorted([*folder.glob(f"{store}/cells/*.json"), *folder.glob(f"{store}/sequences/*.json")]):
        cell = json.loads(path.read_text())
        if cell.get("control"):
            continue
        for entry in cell["problems"]:
            fields = {name: entry[name] for name in ENTRY if name in entry}
            if "answering" in entry:
                fields["answered"] = entry["answering"][0]
            yield labelled(cell["labels"]), entry["id"], fields


def rows(printed: Iterable[dict[str, Any]], before: str = "") -> Iterator[Record]:
    """A record for each row."""
    for row in printed:
        who = before + labelled(row) + (f" seeds {row['seeds']}" if len(row.get("seeds") or ()) > 1 else "")
        yield who, "row", {name: value for name, value in row.items() if name not in NOT_OF_A_ROW}


def labelled(labels: dict[str, Any]) -> str:
    return " ".join(str(labels.get(name)) for name in LABELS)


# What the cases run on.


def gpt4(folder: Path, problems: int, n: int = 100, verdicts: bool = False, scores: bool = False) -> Path:
    """The logs of tree-of-thought as a pool; scores, if wanted, are two made-up numbers a response."""
    with (SHARED / "tasks" / "game24.csv").open() as file:
        puzzles = [row["Puzzles"].split() for row in csv.DictReader(file)]
    lines = []
    for log in json.loads((SHARED / "pools" / "tot_game24_gpt4_standard_n100.json").read_text())[:problems]:
        texts = log["ys"][:n]
        line = {"problem_id": "-".join(sorted(puzzles[log["idx"]], key=int)), "responses": texts}
        line |= {"correct": log["accs"][:n]} if verdicts else {}
        if scores:
            judge = [None if i % 9 == 4 else len(text) % 7 for i, text in enumerate(texts)]
            line["scores"] = {"rm": [(i * 37) % 101 / 8 for i in range(len(texts))], "judge": judge}
        lines.append(line)
    return write_json_lines(folder / "gpt4.jsonl", lines)


def vectors(folder: Path, pool: Path, d: int = 24) -> Path:
    """Made-up vectors of a pool's responses: a direction for each length of text, and noise."""
    rng, arrays = np.random.default_rng(7), {}
    directions = rng.standard_normal((40, d))
    for line in map(json.loads, pool.read_text().splitlines()):
        lengths = [len(text) % 40 for text in line["responses"]]
        arrays[line["problem_id"]] = directions[lengths] + 0.25 * rng.standard_normal((len(lengths), d))
    np.savez(folder / "vectors.npz", **arrays)
    return folder / "vectors.npz"


# The cases.

TOYS = ("--engine", "toy", "--plugin", TOY)
GAME24 = ("--task", "game24")


def few(limit: int, n: int = 16, trials: int = 2) -> tuple[object, ...]:
    return ("--limit", limit, "--n", n, "--trials", trials)


@case(slow=False)
def toy(folder: Path) -> Iterator[Record]:
    """All kinds of stages without a model: errors, audit, measurements, scorers, seeds, subsets, base prompts."""
    colours = (*TOYS, "--task", "colours")
    for seed in (0, 1):
        yield from run(folder, *colours, "--grid", "selector=spread+head+shuffle", "--seed", seed, store=f"seed{seed}")
    joined = api.read_results(folder / "seed0", folder / "seed1")
    yield from rows(json.loads(json.dumps([row.to_json() for row in joined.rows])), "joined ")
    for task, more in (("keyed", ("--audit",)), ("measured", ())):
        yield from run(folder, *TOYS, "--task", task, "--selector", "spread", *more, store=task)
    yield from run(folder, *colours, "--split", "broken", "--selector", "uniform", store="broken")
    scored = ("--scorer", "vowels", "--embedder", "letters", "--grid", "selector=score+score-dpp+score-mmr+repexp")
    yield from run(folder, *colours, *scored, store="scored")
    base = ("--engine", "base", "--plugin", TOY, "--task", "keyed", "--selector", "majority")
    yield from run(folder, *base, store="base")
    yield from run(folder, *colours, "--until-correct", store="until")


@case()
def small(folder: Path) -> Iterator[Record]:
    """A few puzzles by each kind of selector, with the audit."""
    selectors = f"repexp+facility-location+kmeans+gp-ucb+dpp-map+{BY_ANSWER}+logprob+unlikely+mmr"
    return run(folder, *GAME24, *few(4, trials=3), "--audit", "--grid", f"selector={selectors}")


@case()
def full(folder: Path) -> Iterator[Record]:
    """The main job, `make run`, on a tenth of its puzzles."""
    return run(folder, *GAME24, "--limit", 27, "--grid", "selector=repexp+uniform+facility-location")


@case()
def grid(folder: Path) -> Iterator[Record]:
    """Samplers crossed with embedders."""
    crossed = "sampler=vanilla+low-temp+high-temp+min-p:p=0.1+nucleus"
    crossed += ",embedder=hidden-mean+hidden-last+hidden-penultimate+tfidf+random-features,selector=repexp+kmedoids"
    return run(folder, *GAME24, *few(3), "--grid", crossed)


CONTINUED = (*GAME24, "--limit", 16, "--n", 32, "--selector", "repexp", "--selector", "gp-ucb", "--selector", "uniform")


@case()
def continued(folder: Path) -> Iterator[Record]:
    """What `test_golden` kills in the middle and continues."""
    return run(folder, *CONTINUED)


@case()
def until_correct(folder: Path) -> Iterator[Record]:
    """No pool: plain sampling, and guided by RepExp's bonus."""
    for sampler in ("vanilla", "repexp-guided", "repexp-guided:beta=0"):
        options = ("--limit", 4, "--n", 16, "--until-correct", "--sampler", sampler)
        yield from run(folder, *GAME24, *options, store=sampler.replace(":", "-"))


@case(needs="shared")
def gpt4_regraded(folder: Path) -> Iterator[Record]:
    """The pool of GPT-4, graded by the task, by every kind of selector."""
    pool = gpt4(folder, problems=20)
    return run(folder, *GAME24, "--pool", pool, "--regrade", "--trials", 2, "--grid", f"selector={ALL}")


@case(needs="shared")
def gpt4_given(folder: Path) -> Iterator[Record]:
    """The pool of GPT-4 with its verdicts, scores, and the first 60 responses of each problem."""
    selectors = "repexp+kmeans+gp-ucb+majority+score:by=rm+score:by=judge+score-dpp:by=rm+score-mmr:by=rm"
    pool = gpt4(folder, problems=20, verdicts=True, scores=True)
    return run(folder, *GAME24, "--pool", pool, "--n", 60, "--trials", 2, "--grid", f"selector={selectors}")


@case(needs="shared")
def gpt4_states(folder: Path) -> Iterator[Record]:
    """Hidden states of a model on given responses, and own vectors, with and without a task."""
    pool = gpt4(folder, problems=4, n=40, verdicts=True)
    selectors = ("--trials", 2, "--grid", "selector=repexp+facility-location+rnd+uniform")
    yield from run(folder, *GAME24, "--pool", pool, "--model", "tiny24", *selectors, store="states")
    yield from run(folder, "--pool", pool, "--embeddings", vectors(folder, pool), *selectors, store="own")


@case(needs="shared")
def codegen_behaviour(folder: Path) -> Iterator[Record]:
    """A few of CodeGen's programs, run for their verdicts and answers."""
    pools = SHARED / "pools"
    options = ("--task", "humanevalplus:tests=base,answer_by=behaviour", "--limit", 2, "--n", 24)
    options += ("--data", SHARED / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz")
    options += ("--pool", pools / "codet_humaneval_codegen16B_n100.jsonl")
    options += ("--ids", pools / "codet_HumanEval_for_code_generation.jsonl")
    return run(folder, *options, "--grid", f"selector=repexp+uniform+{BY_ANSWER}")


@case(needs="smollm2")
def smollm2(folder: Path) -> Iterator[Record]:
    """A public model's responses to easy questions, with hidden states and likelihoods."""
    sums = [(6, "times", 7, 42), (3, "plus", 9, 12), (8, "minus", 5, 3), (9, "times", 4, 36), (12, "plus", 30, 42)]
    asked = [(f"What is {a} {by} {b}? Say the number.", str(result)) for a, by, b, result in sums]
    asked.append(("How many days has a week? Say the number.", "7"))
    lines = [{"id": f"q{i}", "prompt": prompt, "reference": number} for i, (prompt, number) in enumerate(asked)]
    questions = write_json_lines(folder / "questions.jsonl", lines)
    options = ("--task", f"own:file={questions.name},grader=number", "--model", "smollm2-135m")
    options += ("--n", 16, "--max-tokens", 12, "--trials", 2)
    selectors = "selector=repexp+facility-location+gp-ucb+kmeans+uniform+majority+answer-coverage+logprob+mmr"
    return run(folder, *options, "--grid", f"{selectors},embedder=hidden-mean+hidden-last")


@case(needs="shared")
def select(folder: Path) -> Iterator[Record]:
    """Chosen responses: fresh, after others were verified, by own vectors, by scores, of a model's states."""
    pool = gpt4(folder, problems=4, n=40, scores=True)
    names = [json.loads(line)["problem_id"] for line in pool.read_text().splitlines()]
    verified = [{"problem_id": name, "indices": [0, 3, 17]} for name in names]
    after = ("--verified", write_json_lines(folder / "verified.jsonl", verified))
    own = ("--embeddings", vectors(folder, pool))
    states = (*GAME24, "--model", "tiny24", "--embedder", "hidden-last")
    wanted: list[tuple[str, tuple[Any, ...]]] = [(name, ()) for name in ("kmeans", "k-dpp", "rnd", "uniform", "dedup")]
    wanted += [(name, after) for name in ("facility-location", "gp-ucb", "kmeans", "uniform", "dedup")]
    wanted += [("repexp", own), ("repexp", (*own, *after)), ("repexp", (*own, "--no-centre")), ("kcenter", own)]
    wanted += [("repexp", (*own, "--dim", 8, "--seed", 3)), ("score:by=judge", ()), ("score-mmr:by=rm", after)]
    wanted += [("repexp", states), ("repexp", (*states, *after)), ("majority", GAME24)]
    for name, options in wanted:
        who = f"select {name} {' '.join(Path(str(option)).name for option in options)}"
        for each in harness(folder, "select", "--pool", pool, "--selector", name, "-k", 8, *options):
            yield who, each["problem_id"], {"order": each["order"], "ordered": each["ordered"]}


# Files, and what differs.


def machine() -> dict[str, str]:
    """The kind of this machine: what decides the last bits of a float.

    Two processors with one capability may differ in the last bits of a product, so that their model counts too.
    """
    import torch

    info = Path("/proc/cpuinfo")
    fields = re.findall(r"^(vendor_id|cpu family|model)\s*: (.*)$", info.read_text() if info.exists() else "", re.M)
    versions = {each.metadata["Name"]: each.version for each in distributions()}
    return {
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "model": " ".join(dict(fields).values()) or "unknown",
        **{name: versions.get(name, "none") for name in PACKAGES},
    }


def write(case: Case, records: Iterable[Record]) -> None:
    """Write a golden file: the machine, then a record a line; the same bytes for the same records."""
    lines = [["golden", case.name, machine()], *sorted(rounded(records), key=lambda record: record[:2])]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    case.path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(case: Case) -> tuple[dict[str, str], list[Record]]:
    """The machine on which a golden file was made, and its records."""
    head, *lines = map(json.loads, gzip.decompress(case.path.read_bytes()).decode().splitlines())
    return head[2], [(who, at, fields) for who, at, fields in lines]


def rounded(records: Iterable[Record]) -> list[Record]:
    """The records as JSON gives them back, with 10 significant digits."""
    return json.loads(json.dumps(list(records)), parse_float=lambda text: float(f"{float(text):.10g}"))


def differences(golden: Iterable[Record], records: Iterable[Record]) -> list[str]:
    """What differs, a line for each record: who, where, which fields, what is in the file and what was made now."""
    before, now = (by_place(some) for some in (golden, rounded(records)))
    lines = [f"{who} · {at}: it is no longer made" for who, at in before if (who, at) not in now]
    lines += [f"{who} · {at}: it is new" for who, at in now if (who, at) not in before]
    for (who, at), fields in before.items():
        there = now.get((who, at), fields)
        for name in {**fields, **there}:
            ours, theirs = fields.get(name, "nothing"), there.get(name, "nothing")
            if not alike(ours, theirs):
                lines.append(f"{who} · {at} · {name}: golden {ours!r:.160}, now {theirs!r:.160}")
    return lines


def by_place(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, Any]]:
    places: dict[tuple[str, str], dict[str, Any]] = {}
    for who, at, fields in records:
        assert places.setdefault((who, at), fields) == fields, f"twice: {who} · {at}"
    return places


def alike(ours: Any, theirs: Any) -> bool:
    """Equal, floats but for rounding."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(alike(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return abs(ours - theirs) <= 1e-8 * max(abs(ours), abs(theirs))
    return bool(ours == theirs)
