"""Selectors that learn from measured values, against RepExp, in the loop of `harness verify`.

`python tests/bench/verify_values.py POOL.jsonl` (GPT-4's Game of 24 pool; studies/README.md has its script).
Two measurements of each response, by a function in this process:

    closeness   real: minus the distance of the written expression's value from 24, at least -50; -50 without a value
    synthetic   made up: three random sigmoids of the response's own vector, and noise a tenth of their spread

Each selector measures 32 of 100 responses of each problem. Printed is how far the best value after k calls is on the
way from the pool's mean (what one random call gives) to its largest value, averaged over problems and seeds.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

import harness

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

SELECTORS = ["uniform", "repexp", "gp-ucb", "gp-ucb:c=3", "gp-thompson"]
CALLS, BUDGETS = 32, (2, 4, 8, 16, 32)


def closeness(text):
    """Minus the distance of the last line's expression from 24."""
    expression = text.strip().splitlines()[-1].split(":")[-1].split("=")[0].strip()
    if not re.fullmatch(r"[\d+\-*/(). ]{1,80}", expression) or "**" in expression:
        return -50.0
    try:
        return max(-50.0, -abs(float(eval(expression)) - 24))
    except (SyntaxError, ZeroDivisionError, TypeError, OverflowError):
        return -50.0


def synthetic(vectors, seed):
    """Values (n,) of the vectors (n, d)."""
    rng = np.random.default_rng(seed)
    h = (vectors - vectors.mean(axis=0)) / vectors.std()
    values = np.tanh(h @ rng.normal(size=(h.shape[1], 3)) / np.sqrt(h.shape[1]) * 2) @ rng.normal(size=3)
    return values + rng.normal(size=len(values)) * values.std() / 10


def tables(pool, seed):
    """Kind of measurement -> problem -> values (n,), for the problems whose responses are not all equal."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    close, made = {}, {}
    for place, (name, texts) in enumerate(pool.items()):
        close[name] = np.array([closeness(text) for text in texts])
        vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 3)).fit_transform(texts).toarray()
        made[name] = synthetic(vectors, [seed, place])
    return {"closeness": close, "synthetic": made}


def best_after(path, selector, values, seed, folder):
    """The best values so far, (problems, calls), relative to the pool's mean (0) and maximum (1)."""
    calls = {name: [] for name in values}

    def measure(name, index, text):
        calls[name].append(float(values[name][index]))
        return calls[name][-1]

    options = {"budget": CALLS * len(values), "budget_per_problem": CALLS, "top": 1, "seed": seed, "quiet": True}
    harness.verify(path, measure, selector, journal=Path(folder) / "verify.jsonl", **options)
    best = np.maximum.accumulate([calls[name] for name in values], axis=1)
    mean, largest = (np.array([each(row) for row in values.values()])[:, None] for each in (np.mean, np.max))
    return (best - mean) / (largest - mean)


def main() -> None:
    """Print a table for each measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pool", type=Path, nargs="?", help="without one nothing is run")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    options = parsed(parser, problems=2, seeds=1)
    if options.smallest:
        lines = [{"problem_id": str(i), "responses": [f"{k} + {k * i} = 24" for k in range(CALLS)]} for i in range(2)]
    elif options.pool is None:
        return print("verify values: not run without a pool")
    else:
        lines = [json.loads(line) for line in options.pool.read_text().splitlines()[: options.problems]]
    pool = {line["problem_id"]: line["responses"] for line in lines}
    for kind in ("closeness", "synthetic"):
        print(f"{kind:14}" + "".join(f"{k:>8}" for k in BUDGETS), flush=True)
        for selector in SELECTORS:
            every = []
            for seed in range(options.seeds):
                values = {name: row for name, row in tables(pool, seed)[kind].items() if row.max() > row.mean() + 1e-9}
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "pool.jsonl"
                    path.write_text("".join(json.dumps(line) + "\n" for line in lines if line["problem_id"] in values))
                    every.append(best_after(path, selector, values, seed, folder))
            mean = np.mean(every, axis=(0, 1))
            print(f"{selector:14}" + "".join(f"{mean[k - 1]:8.3f}" for k in BUDGETS), flush=True)


if __name__ == "__main__":
    main()
