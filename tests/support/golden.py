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
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

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

COMPARED = "repexp+facility-location+dpp-map+kcenter+kmeans-pp+kmeans+kmedoids+k-dpp+rnd+ngram-coverage"
COMPARED += "+gp-ucb+gp-thompson"
FREE = "dedup+length+length:first=long+in-order+uniform"
BY_ANSWER = "answer-coverage+answer-round-robin+dedup:by=answer+outcome-ucb+outcome-ucb-seen+majority"
BY_LIKELIHOOD = "logprob+unlikely+mmr"
ALL = f"selector={COMPARED}+{FREE}+{BY_ANSWER}"


@dataclass(frozen=True)
class Case:
    """One golden file. `records(folder)` runs the case in an empty folder."""

    name: str
    records: Callable[[Path], Iterable[Record]]
    slow: bool = True
    needs: str = ""  # "shared": the folder of third parties' data; "smollm2": the model

    @property
    def path(self) -> Path:
        """Its golden file."""
        return GOLDEN / f"{self.name}.jsonl.gz"


# Read from outside.


def command(folder: Path, arguments: tuple[object, ...]) -> tuple[int, str, str]:
    """Exit code, output and messages of `harness ARGUMENTS` in `folder`. Fast tests put another function here."""
    ended = run_to_end(harness_command(*arguments), cwd=folder, env=ENVIRONMENT)
    return ended.returncode, ended.stdout, ended.stderr


def harness(folder: Path, *arguments: object, code: int = 0) -> str:
    """What `harness ARGUMENTS` prints, run in `folder`; AssertionError with its messages if it exits otherwise."""
    status, out, messages = command(folder, arguments)
    assert status == code, f"harness {' '.join(map(str, arguments))}: exit code {status}: {messages}"
    return out


def python(folder: Path, code: str) -> Any:
    """The JSON that a program prints, run as a file in `folder`: a class of a user has a source."""
    (folder / "script.py").write_text(code)
    ended = run_to_end([sys.executable, "script.py"], cwd=folder, env=ENVIRONMENT)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def run(folder: Path, *options: object, store: str = "runs", code: int = 0) -> Iterator[Record]:
    """The records of `harness run OPTIONS`: the rows that it prints, then all cells of its store."""
    yield from rows(json.loads(harness(folder, "run", "--yes", "--json", "--store", store, *options, code=code)))
    yield from cells(folder / store)


def rows(printed: Iterable[dict[str, Any]]) -> Iterator[Record]:
    """A record for each row."""
    for row in printed:
        who = _labelled(row) + (f" seeds {row['seeds']}" if len(row.get("seeds") or ()) > 1 else "")
        yield who, "row", {name: value for name, value in row.items() if name not in NOT_OF_A_ROW}


def cells(store: Path) -> Iterator[Record]:
    """A record for each problem of each cell of a store, or of each record of `--until-correct`."""
    for path in sorted([*store.glob("cells/*.json"), *store.glob("sequences/*.json")]):
        cell = json.loads(path.read_text())
        if cell.get("control"):  # ranked beside the others
            continue
        if "failed" in cell:
            yield _labelled(cell["labels"]), "failed", {}
            continue
        for entry in cell["problems"]:
            fields = {name: entry[name] for name in ENTRY if name in entry}
            if "answering" in entry:
                fields["answered"] = entry["answering"][0]
            yield _labelled(cell["labels"]), entry["id"], fields


def _labelled(labels: dict[str, Any]) -> str:
    return " ".join(str(labels.get(name)) for name in LABELS)


# What the cases run on.


def gpt4(folder: Path, verdicts: bool = False, problems: int = 100, n: int = 100, scores: bool = False) -> Path:
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
    return _written(folder / "gpt4.jsonl", lines)


def codegen(folder: Path, problems: int) -> Path:
    """The first of CodeGen's samples of HumanEval, with verdicts by the base tests as this machine's maker gave them.

    `codegen-verdicts.json` holds them, a bit a response, the first response in the highest bit: those of `harness run
    --task humanevalplus:tests=base --pool ... --ids ...`, written by `harness pool export`.
    """
    data, verdicts = SHARED / "pools", json.loads((GOLDEN / "codegen-verdicts.json").read_text())
    table = [json.loads(line) for line in (data / "codet_HumanEval_for_code_generation.jsonl").read_text().splitlines()]
    ids = {row["prompt"]: row["task_id"] for row in table}
    lines = []
    for text in (data / "codet_humaneval_codegen16B_n100.jsonl").read_text().splitlines()[:problems]:
        pool = json.loads(text)
        bits = f"{int(verdicts[ids[pool['prompt']]], 16):0{len(pool['samples'])}b}"
        correct = [bit == "1" for bit in bits]
        lines.append({"problem_id": ids[pool["prompt"]], "responses": pool["samples"], "correct": correct})
    return _written(folder / "codegen.jsonl", lines)


def vectors(folder: Path, pool: Path, d: int = 24) -> Path:
    """Made-up vectors of a pool's responses: a direction for each length of text, and noise."""
    rng, arrays = np.random.default_rng(7), {}
    directions = rng.standard_normal((40, d))
    for line in map(json.loads, pool.read_text().splitlines()):
        lengths = [len(text) % 40 for text in line["responses"]]
        arrays[line["problem_id"]] = directions[lengths] + 0.25 * rng.standard_normal((len(lengths), d))
    np.savez(folder / "vectors.npz", **arrays)
    return folder / "vectors.npz"


def _written(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


# The cases.

TOYS = ("--engine", "toy", "--plugin", TOY)
GAME24 = ("--task", "game24")


JOINED = """
import json, harness
print(json.dumps([row.to_json() for row in harness.read_results("seed0", "seed1").rows]))
"""


def toy(folder: Path) -> Iterator[Record]:
    """All kinds of stages without a model: errors, audit, measurements, scorers, seeds, subsets, base prompts."""
    for seed in (0, 1):
        options = ("--task", "colours", "--selector", "spread", "--selector", "head", "--selector", "shuffle")
        yield from run(folder, *TOYS, *options, "--selector", "likely", "--seed", seed, store=f"seed{seed}")
    printed = python(folder, JOINED)
    yield from (("joined " + who, at, fields) for who, at, fields in rows(printed))
    yield from run(folder, *TOYS, "--task", "keyed", "--selector", "spread", "--audit", store="keyed")
    yield from run(folder, *TOYS, "--task", "measured", "--selector", "spread", store="measured")
    yield from run(folder, *TOYS, "--task", "colours", "--split", "broken", "--selector", "uniform", store="broken")
    scored = ("--task", "colours", "--scorer", "vowels", "--embedder", "letters")
    yield from run(folder, *TOYS, *scored, "--grid", "selector=score+score-dpp+score-mmr+repexp", store="scored")
    failing = ("--selector", "raising", "--selector", "twice", "--selector", "shuffle")
    yield from run(folder, *TOYS, "--task", "colours", *failing, store="failing", code=1)
    base = ("--engine", "base", "--plugin", TOY, "--task", "keyed", "--selector", "majority")
    yield from run(folder, *base, store="base")
    yield from run(folder, *TOYS, "--task", "colours", "--until-correct", store="until")


def small(folder: Path) -> Iterator[Record]:
    """A few puzzles by each kind of selector, with the audit."""
    selectors = f"selector=repexp+facility-location+kmeans+gp-ucb+dpp-map+{FREE}+{BY_ANSWER}+{BY_LIKELIHOOD}"
    return run(folder, *GAME24, "--limit", 12, "--n", 16, "--trials", 3, "--audit", "--grid", selectors)


def full(folder: Path) -> Iterator[Record]:
    """The main job, `make run`."""
    three = ("--selector", "repexp", "--selector", "uniform", "--selector", "facility-location")
    return run(folder, *GAME24, *three)


def grid(folder: Path) -> Iterator[Record]:
    """Samplers crossed with embedders."""
    crossed = "sampler=vanilla+low-temp+high-temp+min-p:p=0.1+nucleus"
    crossed += (
        ",embedder=hidden-mean+hidden-last+hidden-penultimate+tfidf+random-features,selector=repexp+kmedoids+uniform"
    )
    return run(folder, *GAME24, "--limit", 8, "--n", 16, "--trials", 2, "--grid", crossed)


def continued(folder: Path) -> Iterator[Record]:
    """What `test_golden` kills in the middle and continues."""
    return run(folder, *continued_options())


def continued_options() -> tuple[object, ...]:
    """The options of a run that is long enough to be killed."""
    return (*GAME24, "--limit", 40, "--n", 32, "--selector", "repexp", "--selector", "gp-ucb", "--selector", "uniform")


def until_correct(folder: Path) -> Iterator[Record]:
    """No pool: plain sampling, and guided by RepExp's bonus."""
    for sampler in ("vanilla", "repexp-guided", "repexp-guided:beta=0"):
        options = ("--limit", 6, "--n", 16, "--until-correct", "--sampler", sampler)
        yield from run(folder, *GAME24, *options, store=sampler.replace(":", "-"))


def gpt4_regraded(folder: Path) -> Iterator[Record]:
    """The pool of GPT-4, graded by the task."""
    return run(folder, *GAME24, "--pool", gpt4(folder), "--regrade", "--trials", 2, "--grid", ALL)


def gpt4_given(folder: Path) -> Iterator[Record]:
    """The pool of GPT-4 with its verdicts, scores, and the first 60 responses of each problem."""
    by_score = "score:by=rm+score:by=judge+score-dpp:by=rm+score-mmr:by=rm"
    selectors = f"selector=repexp+kmeans+gp-ucb+{by_score}+{FREE}+{BY_ANSWER}"
    pool = gpt4(folder, verdicts=True, problems=60, scores=True)
    return run(folder, *GAME24, "--pool", pool, "--n", 60, "--trials", 2, "--grid", selectors)


def gpt4_states(folder: Path) -> Iterator[Record]:
    """Hidden states of a model on given responses, and own vectors, with and without a task."""
    pool = gpt4(folder, verdicts=True, problems=10, n=40)
    selectors = ("--trials", 2, "--grid", "selector=repexp+facility-location+rnd+uniform")
    yield from run(folder, *GAME24, "--pool", pool, "--model", "tiny24", *selectors, store="states")
    yield from run(folder, "--pool", pool, "--embeddings", vectors(folder, pool), *selectors, store="own")


def codegen_given(folder: Path) -> Iterator[Record]:
    """CodeGen's programs with given verdicts and no task."""
    selectors = f"selector={COMPARED}+{FREE}"
    return run(folder, "--pool", codegen(folder, 60), "--trials", 2, "--grid", selectors)


def codegen_behaviour(folder: Path) -> Iterator[Record]:
    """A few of CodeGen's programs, run for their verdicts and answers."""
    data, pools = SHARED / "tasks", SHARED / "pools"
    options = ("--task", "humanevalplus:tests=base,answer_by=behaviour", "--limit", 4, "--n", 24)
    options += ("--data", data / "HumanEvalPlus-v0.1.10.jsonl.gz")
    options += ("--pool", pools / "codet_humaneval_codegen16B_n100.jsonl")
    options += ("--ids", pools / "codet_HumanEval_for_code_generation.jsonl")
    return run(folder, *options, "--grid", f"selector=repexp+uniform+{BY_ANSWER}")


def smollm2(folder: Path) -> Iterator[Record]:
    """A public model's responses to easy questions, with hidden states and likelihoods."""
    sums = [(6, "times", 7, 42), (3, "plus", 9, 12), (8, "minus", 5, 3), (9, "times", 4, 36), (12, "plus", 30, 42)]
    asked = [(f"What is {a} {by} {b}? Say the number.", str(result)) for a, by, b, result in sums]
    asked.append(("How many days has a week? Say the number.", "7"))
    lines = [{"id": f"q{i}", "prompt": prompt, "reference": number} for i, (prompt, number) in enumerate(asked)]
    questions = _written(folder / "questions.jsonl", lines)
    options = ("--task", f"own:file={questions.name},grader=number", "--model", "smollm2-135m")
    options += ("--n", 16, "--max-tokens", 12, "--trials", 2)
    selectors = f"selector={COMPARED}+{FREE}+{BY_ANSWER}+{BY_LIKELIHOOD},embedder=hidden-mean+hidden-last"
    return run(folder, *options, "--grid", selectors)


def select(folder: Path) -> Iterator[Record]:
    """Chosen responses: fresh, after others were verified, by own vectors, by scores, of a model's states."""
    pool = gpt4(folder, problems=8, n=40, scores=True)
    verified = [
        {"problem_id": json.loads(line)["problem_id"], "indices": [0, 3, 17]} for line in pool.read_text().splitlines()
    ]
    after = ("--verified", _written(folder / "verified.jsonl", verified))
    own = ("--embeddings", vectors(folder, pool))
    states = (*GAME24, "--model", "tiny24", "--embedder", "hidden-last")
    selectors = ("repexp", "facility-location", "kmeans", "k-dpp", "gp-ucb", "rnd", "uniform", "dedup")
    wanted: list[tuple[Any, ...]] = [(name, ()) for name in selectors]
    wanted += [(name, after) for name in selectors]
    wanted += [("repexp", own), ("repexp", (*own, *after)), ("repexp", (*own, "--no-centre")), ("kcenter", own)]
    wanted += [("repexp", (*own, "--dim", 8, "--seed", 3)), ("score:by=judge", ()), ("score-mmr:by=rm", after)]
    wanted += [("repexp", states), ("repexp", (*states, *after)), ("majority", GAME24)]
    for name, options in wanted:
        printed = harness(folder, "select", "--pool", pool, "--selector", name, "-k", 8, "--yes", "--json", *options)
        who = f"select {name} {' '.join(Path(str(option)).name for option in options)}"
        for each in json.loads(printed):
            yield who, each["problem_id"], {"order": each["order"], "ordered": each["ordered"]}


DOOR = """
import json, sys, numpy as np, harness
pool = [json.loads(line) for line in open("gpt4.jsonl")]
texts = {line["problem_id"]: line["responses"] for line in pool}
with np.load("vectors.npz") as file: vectors = dict(file)
first = next(iter(texts))
def listed(picks): return {"order": np.asarray(picks).tolist()}
out = []
def keep(who, picks):
    if isinstance(picks, dict): out.extend([who, at, listed(some)] for at, some in picks.items())
    else: out.append([who, first, listed(picks)])
class Middle:
    "From the middle outwards."
    needs = ()
    def rank(self, pool, rng): yield from sorted(range(len(pool)), key=lambda i: abs(2 * i - len(pool)))
keep("door texts", harness.select(texts, "repexp", 6, quiet=True))
keep("door one", harness.select(vectors[first], "facility-location", 6, quiet=True))
keep("door vectors", harness.select(vectors, "kmedoids", 6, verified={first: [1, 2]}, quiet=True))
keep("door float32", harness.select({k: v.astype("f4") for k, v in vectors.items()}, "repexp", 6, seed=2, quiet=True))
keep("door scores", harness.select(texts[first], "score", 6, scores=[len(t) for t in texts[first]], quiet=True))
keep("door own class", harness.select(texts, Middle(), 6, quiet=True))
keep("door path", harness.select("gpt4.jsonl", "repexp", 6, quiet=True))
results = harness.run(task="game24", pool="gpt4.jsonl", selectors=["repexp", Middle(), "uniform"], quiet=True)
print(json.dumps([out, [row.to_json() for row in results.rows]]))
"""


def door(folder: Path) -> Iterator[Record]:
    """The Python door: texts, vectors, scores and objects in memory."""
    pool = gpt4(folder, verdicts=True, problems=6, n=30)
    vectors(folder, pool)
    picks, printed = python(folder, DOOR)
    yield from map(tuple, picks)
    yield from rows(printed)


CHECK = """
import sys
text = open(sys.argv[1]).read()
sys.exit(2 if len(text) % 11 == 3 else int(len(text) % 3 > 0))
"""
VERIFY = """
import json, harness
def longest(problem, index, text): return float(len(text) % 23)
def solved(problem, index, text):
    if index % 13 == 5: return None
    return len(text) % 5 == 0
out = {}
for name, options in {
    "repexp": {}, "gp-ucb": {"until": 2}, "gp-thompson": {"seed": 4}, "outcome-ucb-seen": {"task": "game24"},
    "uniform": {"budget_per_problem": 3},
}.items():
    out[name] = harness.verify("gpt4.jsonl", solved, name, budget=40, journal=f"{name}.jsonl", quiet=True, **options)
out["top"] = harness.verify("gpt4.jsonl", longest, "gp-ucb", budget=40, top=5, journal="top.jsonl", quiet=True)
print(json.dumps(out))
"""


def verify(folder: Path) -> Iterator[Record]:
    """Journals, line by line, and what ends each: by functions, by a command, continued, and by answers sent back."""
    pool = gpt4(folder, problems=12, n=40)
    (folder / "check.py").write_text(CHECK)
    for name, ended in python(folder, VERIFY).items():
        yield from _journal(f"verify {name}", folder / f"{name}.jsonl", ended)
    command = ("verify", "--pool", pool, "--selector", "gp-ucb", "--yes", "--json")
    checked = (*command, "--verifier", f"{sys.executable} check.py {{response_file}}", "--journal", "command.jsonl")
    harness(folder, *checked, "--budget", 10)
    ended = json.loads(harness(folder, *checked, "--budget", 25))
    yield from _journal("verify by a command, continued", folder / "command.jsonl", ended)
    asking = (*command, "--ask", "-k", 3, "--journal", "ask.jsonl")
    asked = json.loads(harness(folder, *asking))
    for _ in range(3):
        outcomes = [("correct", "wrong", "wrong")[len(pick["response"]) % 3] for pick in asked["ask"]]
        answered = zip(asked["ask"], outcomes, strict=True)
        table = [f"{pick['problem_id']},{pick['index']},{outcome}\n" for pick, outcome in answered]
        (folder / "answers.csv").write_text("problem_id,index,outcome\n" + "".join(table))
        asked = json.loads(harness(folder, *asking, "--answers", "answers.csv"))
    yield from _journal(
        "verify by answers", folder / "ask.jsonl", {name: asked[name] for name in asked if name != "ask"}
    )


def _journal(who: str, path: Path, ended: dict[str, Any]) -> Iterator[Record]:
    yield who, "ended", ended
    for place, line in enumerate(map(json.loads, path.read_text().splitlines())):
        if place:  # the first line has hashes of files
            kept = ("problem_id", "index", "outcome", "value", "asked")
            yield who, f"line {place}", {name: line[name] for name in kept if name in line}


def rerun(folder: Path) -> Iterator[Record]:
    """A cell made again in another store by what it records."""
    wanted = ("--task", "colours", "--n", 12, "--grid", "selector=spread+head+gp-ucb", "--trials", 3, "--seed", 2)
    yield from run(folder, *TOYS, *wanted)
    paths = sorted((folder / "runs" / "cells").glob("*.json"))
    for number, path in enumerate(path for path in paths if not json.loads(path.read_text()).get("control")):
        options = ("--store", f"again{number}", "--plugin", TOY, "--yes", "--json")
        printed = json.loads(harness(folder, "rerun", path, *options))
        yield from (("again " + who, at, fields) for who, at, fields in rows(printed))


CASES = {case.name: case for case in (
    Case("toy", toy, slow=False),
    Case("small", small, slow=False),
    Case("rerun", rerun, slow=False),
    Case("full", full),
    Case("grid", grid),
    Case("continued", continued),
    Case("until-correct", until_correct),
    Case("gpt4-regraded", gpt4_regraded, needs="shared"),
    Case("gpt4-given", gpt4_given, needs="shared"),
    Case("gpt4-states", gpt4_states, needs="shared"),
    Case("codegen-given", codegen_given, needs="shared"),
    Case("codegen-behaviour", codegen_behaviour, needs="shared"),
    Case("smollm2", smollm2, needs="smollm2"),
    Case("select", select, needs="shared"),
    Case("door", door, needs="shared"),
    Case("verify", verify, needs="shared"),
)}  # fmt: skip


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
    lines = [json.dumps(["golden", case.name, machine()])]
    for who, at, fields in sorted(_rounded(records), key=lambda record: record[:2]):
        lines.append(json.dumps([who, at, fields], separators=(",", ":")))
    case.path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def read(case: Case) -> tuple[dict[str, str], list[Record]]:
    """The machine on which a golden file was made, and its records."""
    head, *lines = map(json.loads, gzip.decompress(case.path.read_bytes()).decode().splitlines())
    return head[2], [(who, at, fields) for who, at, fields in lines]


def _rounded(records: Iterable[Record]) -> list[Record]:
    """The records as JSON gives them back, with 10 significant digits."""

    def shortened(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.10g}")
        if isinstance(value, dict):
            return {name: shortened(each) for name, each in value.items()}
        return [shortened(each) for each in value] if isinstance(value, list) else value

    return [(who, at, shortened(json.loads(json.dumps(fields)))) for who, at, fields in records]


def differences(golden: Iterable[Record], records: Iterable[Record]) -> list[str]:
    """What differs, a line for each record: who, where, which fields, what is in the file and what was made now."""
    before, now = (_by_place(some) for some in (golden, _rounded(records)))
    lines = [f"{who} · {at}: it is no longer made" for who, at in before if (who, at) not in now]
    lines += [f"{who} · {at}: it is new" for who, at in now if (who, at) not in before]
    for (who, at), fields in before.items():
        there = now.get((who, at), fields)
        for name in {**fields, **there}:
            ours, theirs = fields.get(name, "nothing"), there.get(name, "nothing")
            if not _alike(ours, theirs):
                lines.append(f"{who} · {at} · {name}: golden {_shown(ours)}, now {_shown(theirs)}")
    return lines


def _by_place(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, Any]]:
    places: dict[tuple[str, str], dict[str, Any]] = {}
    for who, at, fields in records:
        assert places.setdefault((who, at), fields) is fields or places[who, at] == fields, f"twice: {who} · {at}"
    return places


def _alike(ours: Any, theirs: Any) -> bool:
    """Equal, floats but for rounding."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_alike(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_alike, ours, theirs))
    if isinstance(ours, float) or isinstance(theirs, float):
        numbers = isinstance(ours, (int, float)) and isinstance(theirs, (int, float))
        return numbers and abs(ours - theirs) <= 1e-8 * max(abs(ours), abs(theirs))
    return bool(ours == theirs)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
