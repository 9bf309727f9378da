"""What `harness select` refuses, and what its line says: options, files of what was verified, and vectors."""

from pathlib import Path

import numpy as np

# Options beside a pool of three problems with five responses, `selector` "repexp" and `k` 2 unless given.
OPTIONS = [
    ({"k": 6}, "problem 'test/0' has 5 responses: -k 6 is more"), ({"k": 0}, "-k must be at least 1, got 0"),
    ({"selector": "repex"}, "unknown selector 'repex' (did you mean 'repexp'?"),
    ({"embedder": "hidden-mean"}, "embedder 'hidden-mean' takes a model's hidden states: say which --model"),
    ({"model": "x", "engine": "stateless"}, "which engine 'stateless' does not give"),
    ({"selector": "logprob"}, "selector 'logprob' needs log-probabilities, which the pool does not carry"),
    ({"selector": "answer-round-robin"}, "reads canonical answers, which a task extracts: say which --task"),
    ({"task": "colour"}, "unknown task 'colour' (did you mean 'colours'?"),
    ({"embeddings": Path("absent.npz")}, "embeddings absent.npz: no such file"),
    ({"embeddings": Path("E.npz"), "embedder": "tfidf"}, "give --embeddings or --embedder, not both"),
    ({"selector": "twice"}, "selector 'twice', problem 'test/0': index 0 was picked twice"),
    ({"selector": "raising"}, "problem 'test/0': raised ZeroDivisionError: oh (toy.py:"),
    ({"selector": "particular", "embedder": "letters", "centre": False}, "raised AssertionError"),
]  # fmt: skip

# Options beside a file of vectors alone, which has 5 rows for problem test/0.
VECTORS_ALONE = [
    ({"task": "colours"}, "--task goes with --pool"), ({"outcomes": ("active",)}, "--outcome goes with --pool"),
    ({"threshold": 7.0}, "--threshold goes with --outcome NAME"),
    ({"selector": "ngram-coverage"}, "reads texts: give --pool beside"),
    ({"selector": "outcome-ucb"}, "(and give --pool)"), ({"selector": "mmr"}, "needs log-probabilities"),
    ({"k": 6}, "test/0' has 5 responses: -k 6"),
]  # fmt: skip

# Files of what was verified of three problems, test/0 to test/2, with five responses each.
GOOD = '{"problem_id": "test/0", "indices": [0, 2]}\n'
VERIFIED = [
    ("not json\n", "v.jsonl, line 1: not JSON"), (GOOD + '{"problem_id": "test/1"', "line 2: not JSON"),
    ('{"problem_id": "test/0"}\n', 'expected {"problem_id": ..., "indices": [...]}, got the keys \'problem_id\''),
    ('{"problem_id": "tset/0", "indices": []}\n', "line 1: problem 'tset/0' is none of the 3 of the pool"),
    *(
        (GOOD + f'{{"problem_id": "test/1", "indices": {given}}}\n', f"line 2 (test/1): indices must be {words}")
        for given, words in (
            ("3", "a list of whole numbers, got 3"), ("[1.0]", "whole numbers from 0 to 4, each once, got 1.0"),
            ("[true]", "whole numbers from 0 to 4, each once, got True"), ("[0, 5]", "whole numbers from 0 to 4, each"),
            ("[-1]", "whole numbers from 0 to 4, each once, got -1"), ("[2, 1, 2]", "whole numbers from 0 to 4, each"),
        )
    ),
    ('{"problem_id": "test/0", "indices": [4, 3, 2, 1, 0]}\n', "problem 'test/0': all 5 responses are verified"),
    ('{"problem_id": "test/0", "indices": [4, 3, 2, 1]}\n', "has 1 response left, since 4 of 5 are verified: -k 2"),
]  # fmt: skip

# Arrays by problem, whether the pool is given too, and what the line says.
VECTORS = [
    ({"test/0": np.zeros((5, 2))}, True, "'test/1' is not in the file"),
    ({f"test/{i}": np.zeros((4, 2)) for i in range(3)}, True, "has shape (4, 2), expected (5, d)"),
    ({"a": np.float32(4)}, False, "has shape (), expected (n, d)"),
    ({"a": np.full((4, 2), np.inf)}, False, "must hold finite numbers"),
    ({"a": np.zeros((4, 0))}, False, "repexp: the pool has no embeddings"),
    ({"a": np.zeros((0, 2))}, False, "has 0 responses: -k 2"), ({}, False, "holds no arrays"),
]  # fmt: skip
