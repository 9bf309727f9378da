"""What exploration while decoding costs: `python tests/bench/guided.py`, CPU time a token beside plain decoding.

Plain decoding and `repexp-guided` (candidates as siblings behind one cache, one pass a step), both one response at a
time, in one process and thread: a random Qwen2 of about 50 M parameters, by prompt length and by how many candidates
survive the filters, which the head's scale decides. The responses after the first are timed.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import random_qwen2, sizes

from harness.records import SampleRequest
from harness_plugins.engines.transformers import steered
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.samplers.guided import RepExpGuided


class Unguided(RepExpGuided):
    """One response after another: nothing is added, and nothing learned."""

    adds = False

    def steering(self) -> "Unguided":
        return self

    def learn(self, states: torch.Tensor) -> None: ...


def seconds(engine: Transformers, sampler: RepExpGuided, length: int, n: int, tokens: int) -> float:
    """CPU seconds a token of the responses after the first, without the prompt's pass."""
    marks: list[float] = []
    options = {"max_tokens": tokens, "seeds": [0], "report": lambda *rows: marks.append(time.process_time())}
    engine.sample(SampleRequest([[{"role": "user", "content": "x" * length}]], n=n, sampler=sampler, **options))
    return (marks[-1] - marks[0]) / (tokens * (n - 1))


def main() -> None:
    """Print one line a setting: the best of the rounds."""
    options = sizes(__doc__, tokens=(12, 2), n=(3, 2), rounds=(2, 1), width=(896, 448), layers=(6, 1))
    looked: list[int] = []
    look = steered.CandidateTree.look
    count = lambda tree, ids: looked.append(ids.shape[1]) or look(tree, ids)  # noqa: E731
    steered.CandidateTree.look = count  # type: ignore[method-assign]
    for head in (30,) if options.smallest else (3, 30):
        with tempfile.TemporaryDirectory() as folder:
            random_qwen2(Path(folder), 8192, options.width, options.layers, head)
            engine = Transformers(folder, device="cpu")
            engine._checkpoint.eos = []
            for length in (8,) if options.smallest else (128, 512, 1024):
                looked.clear()
                best: dict[type, float] = {}
                for _ in range(options.rounds + 1):  # the first loads the model and tries it
                    for kind in (Unguided, RepExpGuided):
                        took = seconds(engine, kind(beta=0.5), length, options.n, options.tokens)
                        best[kind] = min(took, best.get(kind, took))
                several = [count for count in looked if count > 1]
                mean = sum(several) / max(len(several), 1)
                print(f"prompt {length}, head x {head}: {mean:.1f} candidates a step; ms a token: ", end="")
                print(f"plain {1000 * best[Unguided]:.2f}, guided {1000 * best[RepExpGuided]:.2f}", end="")
                print(f" = {best[RepExpGuided] / best[Unguided]:.1f} x plain", flush=True)


if __name__ == "__main__":
    main()
