"""Broken and hostile files for every reader: small valid files, mutated by seed; success or one line is all there is.

    python tests/campaigns/fuzz_readers.py                       2,000 mutations, as the test does
    python tests/campaigns/fuzz_readers.py --count 20000         by hand
    python tests/campaigns/fuzz_readers.py --kind npz --case 17  one again, with its traceback

A case is a kind of file and a number; the same everywhere. Memory is bounded by RLIMIT_AS, a case by CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import random
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save as save_tensors

from harness import HarnessError
from harness.columns.column import Question
from harness.pools.given import GivenVectors, read_verified
from harness.pools.reading import IdTable, Joined, Layouts, pool_digest
from harness.records import Problem
from harness.system.json_text import canonical_json, digest, readable, storable
from harness_tasks.competition_math import Math500
from harness_tasks.evalplus_tasks import HumanEvalPlus
from harness_tasks.game24 import Game24
from harness_tasks.gsm8k import Gsm8k

MEMORY = 2**30  # bytes of address space above what the readers have when they are loaded
SECONDS = 10.0  # of CPU for one case
LAYOUTS = Layouts()

# What a reader must bear in any place of a JSON value, as it stands in the file; in a cell of a table; in a header.
# fmt: off
ODD_JSON = (
    *("null", "true", "-1", "1e999", "-1e999", "NaN", "Infinity", "1.5", "[]", "{}", '""', '" "', "[[]]", "[null]"),
    *('"\\ud800"', '"\\u0000"', '"\\r\\n\\u2028"', '"\\u001b[2J"', '{"a": {}}', '["x", 1]', "1" + "0" * 5_000),
    *("[" + "1" + "0" * 400 + "]", "9223372036854775808", "[" * 950 + "]" * 950, "[" * 100_000 + "]" * 100_000),
    *('{"a":' * 500 + "1" + "}" * 500, '"' + "x" * 200_000 + '"', '"[1, 2"', '"[{[]: 1}]"', '"\N{BYTE ORDER MARK}"'),
)
ODD_TEXT = (
    *("", " ", "=1+1", '"', '"a', "a\0b", "\N{BYTE ORDER MARK}", "\r", "\x85", "nan", "1e999", "1" * 5_000, "*"),
    *("x" * 200_000, "[{[]: 1}]", "[0x" + "f" * 5_000 + "]", "[" * 300 + "]" * 300, "['a', b'b']", "[1, 2j]", "[...]"),
    *("\x1b[2J", "plddt=nan", ">", ";", "problem_id=", "true", "٣", "-"),
)
ODD_SHAPES = (
    *("(4, 3)", "(6000000000000, 1)", "(0, 3)", "(4,)", "()", "(-1, 3)", "(4, 3.0)", "(True, 3)", "(1, 1, 12)"),
    *("(" * 90, "4", "'x'", "(4, 10**9)", "(9" + "9" * 500 + ", 2)"),
)
ODD_DTYPES = ("<f4", "<f8", "|O", "<f2", ">f8", "<U3", "<i8", "|V4", "<c8", "[('a', '<f4')]", "<M8[s]", "f999", "|S0")
ODD_TENSOR = (
    *("F32", "F64", "BF16", "I64", "F8_E4M3", "C64", "x", None, [4, 3], [6_000_000_000_000, 1], [12], [], [-1, 3]),
    *([2**63, 2], [0, 48], [48, 0], [0, 2**40], [[4, 3]], 4, [4, 3, 1]),
)
JUNK = (b"\0", b"\xff\xff\xff\xff", b"\n", b'"', b"[", b"{", b"\x80", b"\xed\xa0\x80", b",")

OWN = [
    {"problem_id": "a", "responses": ["x", "y"], "logprobs": [-1, -2.5], "logprob_kind": "sum", "correct": [True, 0]},
    {"problem_id": "b", "responses": ["x"], "prompt": "What?", "reference": {"answer": [1, "2"]}},
]
LM_EVAL = [
    {"doc_id": 3, "doc": {"question": "1 + 1?", "unique_id": "u"}, "resps": [["2", "3"]], "filter": "none",
     "target": "2", "arguments": {"gen_args_0": {"arg_0": '[{"content": "hi"}]'}}, "doc_hash": "f0"},
    {"doc_id": 4, "doc": {"x": 1}, "resps": [["2"], ["4"]], "target": 2, "arguments": [["ask", {}]], "filter": "none"},
]
NEW_ROWS = [
    {"doc": {"query": f"q{i}", "id": str(i), "task_name": "t", "choices": ["2"], "specific": {"question": "?"}},
     "model_response": {"text": ["2", "3"]}}
    for i in range(3)
]
OLD_ROWS = [{"example": f"q{i}", "full_prompt": "p", "predictions": "['a', 'b']", "gold": "['a']"} for i in range(3)]
GSM8K_ROWS = [{"question": f"{i}?", "answer": f"so #### {i}"} for i in range(3)]
MATH_ROWS = [{"problem": "1+1?", "answer": "2", "solution": "\\boxed{2}", "unique_id": f"u/{i}"} for i in range(3)]
CODE_ROWS = [
    {"task_id": f"HumanEval/{i}", "prompt": "def f(x):\n", "entry_point": "f", "canonical_solution": " return x",
     "base_input": [[1]], "plus_input": [[2]], "atol": 0, "contract": "", "test": ""}
    for i in range(2)
]
CELLS = [["name", "sequence", "logprob", "plddt", "ptm", "problem_id"], ["d1", "MKTAY", "-6.5", "91", "0.8", "p"]]
# fmt: on

Make = Callable[[random.Random], bytes]


# Readers: each as far as a run goes before it writes.


def read_as_pool(path: Path) -> None:
    """Every record, as the store would keep it."""
    pool_digest(path, LAYOUTS)
    joined = Joined(path, None, LAYOUTS)
    for record, problem in joined:
        responses = record.as_responses()
        readable(problem.id), Question(problem).graded
        [storable(text) for text in responses.texts]
        canonical_json([list(record.ids), list(record.prompts), record.logprob_kind, record.reference])
        assert len(responses.logprobs) == len(responses) == len(record.correct or responses.texts)
    canonical_json(joined.index())


def read_as_vectors(path: Path) -> None:
    """Every array."""
    given = GivenVectors(path)
    for vectors in map(given.get, given.names):
        assert vectors.dtype == np.float32
        assert np.isfinite(vectors).all()


def read_as_data(task: Callable[..., Any]) -> Callable[[Path], None]:
    """What reads a task's data: its revision, every problem, its name and hash."""

    def read(path: Path) -> None:
        made = task(data=str(path))
        digest(made.revision)
        for problem in made.problems(made.splits[0]):
            assert isinstance(problem, Problem)
            readable(problem.id), Question(problem, made.messages(problem)).asked

    return read


# Valid files, structurally mutated half of the time.


def json_text(value: Any, rng: random.Random, broken: bool) -> str:
    """The value as JSON, where `broken` with one place of it replaced, left out or doubled."""
    if broken and isinstance(value, dict) and value:
        name = rng.choice(list(value))
        parts = {key: f"{json.dumps(key)}: {json_text(entry, rng, key == name)}" for key, entry in value.items()}
        how = rng.random()
        if how < 0.15:
            del parts[name]
        elif how < 0.25:
            parts["again"] = f"{json.dumps(name)}: {rng.choice(ODD_JSON)}"
        return "{" + ", ".join(parts.values()) + "}"
    if broken and isinstance(value, list) and value and rng.random() < 0.6:
        place = rng.randrange(len(value))
        return "[" + ", ".join(json_text(entry, rng, i == place) for i, entry in enumerate(value)) + "]"
    return rng.choice(ODD_JSON) if broken else json.dumps(value)


def jsonl(values: list[Any], array: bool = False, packed: bool = False) -> Make:
    """What makes JSON lines or an array, perhaps a value broken, doubled or out of order; by gzip, perhaps a bomb."""

    def make(rng: random.Random) -> bytes:
        which = rng.randrange(len(values)) if odd(rng) else -1
        texts = [json_text(value, rng, i == which) for i, value in enumerate(values)]
        if rng.random() < 0.1:
            more = rng.choice([*texts, *ODD_JSON[:24], "", "{", "[", "\N{BYTE ORDER MARK}"])
            texts.insert(rng.randrange(len(texts) + 1), more)
        text = "[" + ",\n".join(texts) + "]" if array else "\n".join(texts) + "\n"
        content = text.encode("utf-8-sig" if rng.random() < 0.1 else "utf-8", "surrogatepass")
        if not packed:
            return content
        bomb, tail = (
            b" " * 2**27 if rng.random() < 0.02 else b"",
            [b""] * 8 + [b"tail", gzip.compress(content, mtime=0)],
        )
        return gzip.compress(content + bomb, 6, mtime=0) + rng.choice(tail)

    return make


def odd(rng: random.Random) -> bool:
    """Whether this place is to be mutated."""
    return rng.random() < 0.5


def table(rows: list[list[str]], delimiter: str = ",") -> Make:
    """What makes CSV, perhaps with odd cells and rows too long or too short."""

    def make(rng: random.Random) -> bytes:
        cells = [list(row) for row in [*rows, *rows[1:]]]
        for _ in range(rng.randrange(3)):
            row = rng.choice(cells)
            if row and rng.random() < 0.8:
                row[rng.randrange(len(row))] = rng.choice(ODD_TEXT)
            else:
                row[:] = row[:-1] if odd(rng) else [*row, "more", "and more"]
        text = io.StringIO()
        if odd(rng):
            csv.writer(text, delimiter=delimiter).writerows(cells)
        else:  # unquoted
            text.write("\n".join(delimiter.join(row) for row in cells))
        return text.getvalue().encode()

    return make


def fasta(rng: random.Random) -> bytes:
    """FASTA, perhaps with odd lines."""
    lines = [">d1 logprob=-61.2 plddt=91.4 ptm=0.8", "MKTAYIAK", "QR*", ">d2 logprob=-3 plddt=90 ptm=0.7", "MMM"]
    for _ in range(rng.randrange(3)):
        place, text = rng.randrange(len(lines)), rng.choice(ODD_TEXT)
        lines[place] = text if odd(rng) else lines[place] + text
    return "\n".join(lines[rng.random() < 0.1 :]).encode()


def parquet(rows: list[dict[str, Any]]) -> Make:
    """What makes parquet, perhaps with a column of another type, another name or none."""
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}

    def make(rng: random.Random) -> bytes:
        arrays: dict[str, Any] = {name: pa.array(values) for name, values in columns.items()}
        for _ in range(rng.randrange(3)):
            name = rng.choice(list(arrays))
            how = rng.random()
            if how < 0.8:
                arrays[name] = odd_column(len(rows), rng)
            elif how < 0.9 and len(arrays) > 1:
                del arrays[name]
            else:
                arrays[f"{name} "] = arrays.pop(name)
        sink = io.BytesIO()
        codec = rng.choice(["snappy", "zstd", "gzip", "none"])
        pq.write_table(pa.table(arrays), sink, compression=codec, use_dictionary=odd(rng))
        return sink.getvalue()

    return make


def odd_column(n: int, rng: random.Random) -> pa.Array:
    """A column of another type, or with odd texts."""
    values, kind = rng.choice(
        [
            ([rng.choice(ODD_TEXT) for _ in range(n)], None),
            ([[rng.choice(ODD_TEXT)] for _ in range(n)], None),
            ([{"text": [rng.choice(ODD_TEXT)], "query": 1, "id": [1]}] * n, None),
            ([{"specific": [1], "task_name": {"a": 1}, "id": b"x"}] * n, None),
            ([b"\xff\xfe"] * n, None),
            ([None] * n, pa.null()),
            ([float("nan"), float("inf"), *[0.0] * n][:n], None),
            ([Decimal("1.5")] * n, None),
            ([datetime(2026, 11, 22)] * n, pa.timestamp("ns")),
            ([2**62] * n, rng.choice([pa.timestamp("us"), pa.duration("s"), pa.int64()])),
            ([2**31 - 1] * n, pa.date32()),
            ([[("k", 1), ("k", 2)]] * n, pa.map_(pa.string(), pa.int64())),
            ([[]] * n, pa.list_(pa.string())),
            (["a"] * n, pa.dictionary(pa.int32(), pa.string())),
            ([b"ab"] * n, pa.binary(2)),
        ]
    )
    return pa.array(values, kind)


def npy(rng: random.Random) -> bytes:
    """One array, perhaps with a header that says something else."""
    if odd(rng):
        sink = io.BytesIO()
        values = rng.choice([1.0, 1e300, float("inf"), 0.0])
        dtype = rng.choice([np.float64, np.float32, np.int64, object, bool, np.float16, np.longdouble])
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            np.save(sink, np.asfortranarray(np.full((4, 3), values).astype(dtype)), allow_pickle=True)
        return sink.getvalue()
    shape, dtype = rng.choice(ODD_SHAPES), rng.choice(ODD_DTYPES)
    descr = dtype if dtype.startswith("[") else repr(dtype)
    header = f"{{'descr': {descr}, 'fortran_order': {rng.choice(['False', 'True', '0', 'x'])}, 'shape': {shape}, }}\n"
    version = rng.choice([(1, 0), (1, 0), (2, 0), (3, 0), (9, 9)])
    length = struct.pack("<H" if version[0] == 1 else "<I", rng.choice([len(header), len(header), 2**16 - 1]))
    return b"\x93NUMPY" + bytes(version) + length + header.encode() + b"\0\0\x80?" * 12


def npz(rng: random.Random) -> bytes:
    """An archive of arrays, perhaps with odd members, or sizes that are not so, here and in the directory."""
    sink, how = io.BytesIO(), rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(sink, "w", how) as archive, warnings.catch_warnings(action="ignore"):
        for name in ("a.npy", "b.npy"):
            archive.writestr(zipfile.ZipInfo(name), npy(rng), archive.compression)
        if rng.random() < 0.2:
            extra = rng.choice(["a.npy", "readme.txt", "../x.npy", "c", "d.npy/", "\N{SNOWMAN}.npy"])
            archive.writestr(zipfile.ZipInfo(extra), rng.choice([b"", b"x" * 50, npy(rng)]))
    content = sink.getvalue()
    if rng.random() < 0.2:
        at = content.find(b"PK\x01\x02") + rng.choice([20, 24, 16])
        content = content[:at] + struct.pack("<I", rng.choice([0, 1, 2**31, 2**32 - 1])) + content[at + 4 :]
    return content


def safetensors(rng: random.Random) -> bytes:
    """Tensors, perhaps with a header that says something else."""
    content = save_tensors({"a": np.ones((4, 3), np.float32), "b": np.zeros((2, 2), np.float64)})
    if odd(rng):
        return content
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[rng.choice(["a", "b"])][rng.choice(["dtype", "shape", "data_offsets"])] = rng.choice(ODD_TENSOR)
    if rng.random() < 0.2:
        header[rng.choice(["__metadata__", "c"])] = rng.choice([1, {}, {"x": 1}, {"x": "y"}, []])
    text = json_text(header, rng, rng.random() < 0.2).encode()
    stated_length = rng.choice([len(text)] * 6 + [0, 2**63, len(text) + 1])
    return struct.pack("<Q", stated_length) + text + content[8 + length :]


def archive_log(rng: random.Random) -> bytes:
    """A zip archive as inspect_ai's logs are."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        log = {"version": 2, "status": "success", "eval": {"task": "t"}}
        for name, value in (("header.json", log), ("samples/1_epoch_1.json", {"id": 1, "epoch": 1})):
            archive.writestr(zipfile.ZipInfo(name), json_text(value, rng, odd(rng)))
    return sink.getvalue()


# Kind -> its name's end, what makes a (structurally mutated, or valid) file, and its reader.
# fmt: off
KINDS: dict[str, tuple[str, Make, Callable[[Path], None]]] = {
    "own": (".jsonl", jsonl(OWN), read_as_pool),
    "own-gzip": (".jsonl.gz", jsonl(OWN, packed=True), read_as_pool),
    "evalplus": (".jsonl", jsonl([{"task_id": "M/1", key: "1"} for key in ("solution", "completion")]), read_as_pool),
    "codet": (".jsonl", jsonl([{"prompt": f"{name}:", "samples": ["1", "2"]} for name in "fg"]), read_as_pool),
    "lm-eval": (".jsonl", jsonl(LM_EVAL), read_as_pool),
    "verl": (".jsonl", jsonl([{"input": "u\nh", "output": "7", "gts": g, "score": 1} for g in ("7", 7)]), read_as_pool),
    "lighteval-new": (".parquet", parquet(NEW_ROWS), read_as_pool),
    "lighteval-old": (".parquet", parquet(OLD_ROWS), read_as_pool),
    "inspect-zip": (".eval", archive_log, read_as_pool),
    "fasta": (".fasta", fasta, read_as_pool),
    "csv": (".csv", table(CELLS), read_as_pool),
    "npz": (".npz", npz, read_as_vectors),
    "safetensors": (".safetensors", safetensors, read_as_vectors),
    "vectors-csv": (".csv", table([["problem_id", "id", "a"], ["p", "m1", "1.5"], ["q", "m", "2"]]), read_as_vectors),
    "vectors-lists": (".parquet", parquet([{"id": name, "a": [1.5, 2.0]} for name in "mn"]), read_as_vectors),
    "verified": (".jsonl", jsonl([{"problem_id": "a", "indices": [0, 3]}]), lambda path: read_verified(path, {"a": 5})),
    "ids-csv": (".csv", table([["task_id", "pool_id"], ["M/12", "line-17"], ["M/13", "line-18"]]), IdTable),
    "data-gsm8k-gzip": (".jsonl.gz", jsonl(GSM8K_ROWS, packed=True), read_as_data(Gsm8k)),
    "data-math": (".json", jsonl(MATH_ROWS, array=True), read_as_data(Math500)),
    "data-code": (".jsonl", jsonl(CODE_ROWS), read_as_data(HumanEvalPlus)),
    "data-game24": (".jsonl", jsonl([{"numbers": [4, 5, 6, 10]}, {"puzzle": "1 2 3 4"}]), read_as_data(Game24)),
    "data-game24-csv": (".csv", table([["Rank", "Puzzles"], ["1", "4 5 6 10"]]), read_as_data(Game24)),
}
# fmt: on


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with up to three places changed: bits, bytes, slices lost, doubled, moved; or cut off."""
    for _ in range(rng.randrange(4) if 0 < len(content) < 2**20 else 0):
        start, place = rng.randrange(len(content) or 1), rng.randrange(len(content) or 1)
        end = min(len(content), start + rng.choice([1, 1, 2, 4, 8, 64]))
        before, part, after = content[:start], content[start:end], content[end:]
        content = rng.choice(
            [
                before + bytes(byte ^ (1 << rng.randrange(8)) for byte in part[:1]) + content[start + 1 :],
                before + rng.choice(JUNK) + after,
                before + after,
                before + part * rng.choice([2, 4]) + after,
                before + rng.randbytes(len(part)) + after,
                content[:place] + part + content[place:],
                before,
            ]
        )
    return content


def case(kind: str, number: int) -> bytes:
    """The file of one case: every fourth structurally mutated alone, the others in their bytes too."""
    rng = random.Random(f"{kind} {number}")
    content = KINDS[kind][1](rng)
    return content if number % 4 == 0 else mutated(content, rng)


def fault(kind: str, path: Path) -> str:
    """What is wrong with how the file was taken; "" where it was read or refused in one line."""
    start = time.process_time()
    try:
        KINDS[kind][2](path)
    except HarnessError as refusal:
        if len(str(refusal).splitlines()) != 1:
            return f"not one line: {str(refusal)!r:.200}"
        if refusal.__cause__ and f" raised {type(refusal.__cause__).__name__}: " in str(refusal):  # a layout's crash
            return "".join(traceback.format_exception(refusal.__cause__))
    except KeyboardInterrupt:
        raise
    except BaseException as failure:  # a panic of a Rust library is no Exception
        return "".join(traceback.format_exception(failure))
    spent = time.process_time() - start
    return f"took {spent:.1f} CPU s" if spent > SECONDS else ""


def main() -> int:
    """Run the cases; returns how many failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--case", type=int)
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    names = [arguments.kind] if arguments.kind else list(KINDS)
    cases = [(names[i % len(names)], i // len(names)) for i in range(arguments.count)]
    if arguments.case is not None:
        cases = [(arguments.kind, arguments.case)]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for at, (name, number) in enumerate([*((name, 0) for name in KINDS), *cases]):
            if at == len(KINDS):  # all libraries are loaded
                mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.RLIM_INFINITY))
            path = Path(scratch) / f"pool{KINDS[name][0]}"
            path.write_bytes(case(name, number))
            if what := fault(name, path):
                failed += 1
                print(f"--kind {name} --case {number}: {what if arguments.case is not None else what.strip()[-700:]}\n")
    print(f"{len(cases)} mutations, {failed} faults, {time.process_time():.0f} CPU s")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
