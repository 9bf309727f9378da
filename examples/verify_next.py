"""Choose what to verify next: ask for a batch, check it, report the outcomes, and ask again.

    python examples/verify_next.py

Made here: 500 candidates in 20 groups that are alike, of which one is active. A selector sees vectors and the outcomes
of what was checked. Give your own vectors, one row a candidate, and put your experiment in place of `check`.
"""

import numpy as np

import harness

rng = np.random.default_rng(0)
group = rng.integers(20, size=500)
vectors = 3 * rng.normal(size=(20, 32))[group] + rng.normal(size=(500, 32))  # (500, 32)
names = [f"candidate-{row}" for row in range(500)]


def check(name: str) -> bool:
    """The experiment: what costs."""
    return bool(group[names.index(name)] == 7)


search = harness.search(vectors, names=names, selector="gp-ucb", journal="search.jsonl", until=10, budget=200)
while batch := search.ask(8):  # the next eight; none when ten are found or 200 were checked
    for name in batch:
        search.tell(name, check(name))

print(f"{len(search.found)} of {np.sum(group == 7)} active candidates found in {search.calls} checks:")
print(", ".join(found["name"] for found in search.found))
print(f"At random {search.calls} checks would find {search.calls * np.mean(group == 7):.1f}.")
