"""Compare selectors on responses of your own: which needs fewer checks until the first correct one?

    python examples/compare.py

Made here: 40 problems with 24 responses each. Most repeat one mistake in the same words; of those that are worded
differently, some are correct. Your own pool is such a file, a line a problem; without verdicts give `task=`.
"""

import json

import numpy as np

import harness

rng = np.random.default_rng(1)
WORDS = ["by parts", "by symmetry", "by induction", "numerically", "from the table", "by cases", "by hand", "twice"]

with open("answers.jsonl", "w") as file:
    for problem in range(40):
        differs = rng.random(24) < 0.3
        correct = (differs & (rng.random(24) < 0.4)).tolist()
        responses = []
        for right, other in zip(correct, differs, strict=True):
            first, second = rng.choice(WORDS, 2) if other else ("by halves", "at once")
            answer = problem + (0 if right else rng.integers(1, 9) if other else 1)
            responses.append(f"Solved {first}, checked {second}: the answer is {answer}.")
        file.write(json.dumps({"problem_id": f"p{problem}", "responses": responses, "correct": correct}) + "\n")

results = harness.run(pool="answers.jsonl", selectors=["repexp", "facility-location", "dedup", "uniform"], quiet=True)
print(results.table())

best = min(results, key=lambda row: row.samples_to_correct)
print(f"{best.selector} needs {best.samples_to_correct:.1f} checks, random order {best.samples_to_correct_random:.1f}.")
