"""What reading hostile results takes: `python tests/campaigns/large_results.py` fails on much memory or time.

Each line is at most as long as all results of a program may be, and small beside what it stands for.
"""

from __future__ import annotations

import os
import resource
import time

from harness_tasks.programs.evalplus_oracle import Oracle

LENGTH = 4 << 20
MOST_MB, MOST_CPU_S = 64, 60.0  # of one line, compared with every expected result by every rule


def repeated(item: str, brackets: str = "[]") -> str:
    return brackets[0] + ",".join([item] * (LENGTH // (len(item) + 1))) + brackets[1]


LINES = [
    *("nbytes:iffffffff;", "nobject:i1;", "nvoid:i7fffffff;", "nstr:i7fffffff;", "[nbytes:iffffffff;,f2.5]"),
    *(repeated("X"), repeated("X", "<>"), repeated("M"), repeated("N"), repeated("<>"), repeated("[]"), repeated("()")),
    *(repeated('d"1E400"'), repeated('d"1E-400"', "()"), repeated('d"1E400":d"1E400"', "{}")),
    *(repeated("f1e308"), repeated("f1e308", "<>"), repeated("f0.25", "()"), repeated("i7"), repeated("i7", "<>")),
    *(
        "i" + "f" * LENGTH,
        "{i1:" + repeated('d"1E400"')[:-9] + "]}",
        repeated("nbool:F;"),
        "b" + "00" * (LENGTH // 2) + ";",
    ),
    *("[" * 90 + repeated("X") + "]" * 90, 's"' + "\\u0000" * (LENGTH // 6) + '"'),
    # numpy would hold each of these strings in as much room as the longest
    "[" + ",".join(['s"' + "x" * (LENGTH // 2) + '"', *['s""'] * 399]) + "]",
    # and broadcast these, 400 rows of 600 floats in lists of their own, to 400 x 600 x 400
    "[" + ",".join(["[" + ",".join(["[f0.25]"] * 600) + "]"] * 400) + "]",
]
EXPECTED = [
    *("i5", "f1.5", "[f1.5,f2.5]", "(f1.5)", "<i1,i2>", "{i1:i2}", "[]", "N"),
    "[" + ",".join(["f0.5"] * 400) + "]",
]
RULES = ("plain", "similar_elements", "surface_Area", "sum_div", "digit_distance_nums")


def main() -> None:
    """Compare each line with each expected result by each rule."""
    oracles = [Oracle("mbpp", name, [[1, 2]], [expected], 1e-4) for name in RULES for expected in EXPECTED]
    oracles.append(Oracle("humaneval", "find_zero", [[[1, 2]]], ["f-0.5"], 1e-4))
    for line in LINES:
        pid = os.fork()  # a process' peak is its own: it begins with what is resident now
        if pid == 0:
            compare(line, oracles)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, f"{line[:60]}: see above"


def compare(line: str, oracles: list[Oracle]) -> None:
    """Print what the comparisons take. Raises AssertionError where that is too much."""
    before, started = peak_mb(), time.process_time()
    assert not any(oracle.passes(0, line) for oracle in oracles), "it is right"
    took_mb, took_s = peak_mb() - before, time.process_time() - started
    print(f"{took_mb:4.0f} MB, {took_s:4.1f} s: {line[:60]}", flush=True)
    assert took_mb < MOST_MB, "too much memory"
    assert took_s < MOST_CPU_S, "too much time"


def peak_mb() -> float:
    """The most memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
