"""Time the rankers on vectors against the libraries and plain loops that one would otherwise take.

    python tests/bench/vector_selectors.py [--n 6400] [--d 512] [--repeats 3] [--only kcenter]

One thread, CPU seconds of the process, medians of a ranker and its rivals timed in turn, on the clustered pool of
repexp.py. Rivals make the similarities that they need by numpy. apricot and submodlib take part where they are
installed; what does not is said.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from repexp import Floats, clustered, medians, pool_of
from threadpoolctl import threadpool_limits

from harness import Pool
from harness_selectors.dpp_map import DPPMap
from harness_selectors.facility_location import FacilityLocation
from harness_selectors.kcenter import KCenter
from harness_selectors.kmeans import KMeansPP
from harness_selectors.mmr import MMR
from harness_selectors.rnd import RandomNetworkDistillation

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes


def nearest_loop(h: Floats, choose: Callable[[Floats], int]) -> None:
    """The squared distance to the nearest pick by |x|² + |p|² - 2 x·p in h's dtype; `choose` takes the next."""
    norm = np.einsum("ij,ij->i", h, h)
    distance, pick = np.full(len(h), np.inf, h.dtype), 0
    for _ in range(len(h) - 1):
        np.minimum(distance, norm + norm[pick] - 2 * (h @ h[pick]), out=distance)
        distance[pick] = -np.inf
        pick = choose(distance)


def draw(distance: Floats, rng: np.random.Generator) -> int:
    """An index by k-means++'s law."""
    total = np.maximum(distance, 0).cumsum(dtype=np.float64)
    return int(np.searchsorted(total, rng.random() * total[-1], side="right"))


def mmr_loop(h: Floats, pool: Pool) -> None:
    """Maximal marginal relevance by the cosine, half and half."""
    quality = pool.logprobs / pool.lengths
    unit, likeness = h / np.linalg.norm(h, axis=1, keepdims=True), np.full(len(h), -1, h.dtype)
    order = [int(quality.argmax())]
    while len(order) < len(h):
        np.maximum(likeness, unit @ unit[order[-1]], out=likeness)
        score = 0.5 * quality - 0.5 * likeness
        score[order] = -np.inf
        order.append(int(score.argmax()))


def cosines(h: Floats) -> Floats:
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    return (1 + unit @ unit.T) / 2


def apricot(h: Floats) -> None:
    """Lazy greedy facility location; its loop is compiled anew at every call."""
    import apricot

    apricot.FacilityLocationSelection(len(h), metric="precomputed", optimizer="lazy").fit(cosines(h))


def submodlib(h: Floats) -> None:
    """Lazy greedy facility location."""
    import submodlib

    function = submodlib.FacilityLocationFunction(n=len(h), mode="dense", sijs=cosines(h), separate_rep=False)
    function.maximize(budget=len(h) - 1, optimizer="LazyGreedy", show_progress=False)


def main() -> None:
    args = sizes(__doc__, n=(6400, 100), d=(512, 8), repeats=(3, 1), only=("", ""))
    warnings.simplefilter("ignore")  # what old libraries say of new ones
    rng = np.random.default_rng(0)
    h = clustered(args.n, args.d, rng)
    h = (h - h.mean(axis=0)).astype(np.float32)
    pool = pool_of(h)
    rivals: dict[str, tuple[Any, dict[str, Callable[[], None]]]] = {
        "kcenter": (KCenter(), {"loop": lambda: nearest_loop(h, lambda distance: int(distance.argmax()))}),
        "kmeans-pp": (KMeansPP(), {"loop": lambda: nearest_loop(h, lambda distance: draw(distance, rng))}),
        "mmr": (MMR(), {"loop": lambda: mmr_loop(h, pool)}),
        "facility-location": (
            FacilityLocation(),
            {"apricot": partial(apricot, h), "submodlib": partial(submodlib, h)},
        ),
        "dpp-map": (DPPMap(), {}),
        "dpp-map:kernel=cosine": (DPPMap("cosine"), {}),
        "rnd": (RandomNetworkDistillation(), {}),
    }
    print(f"n = {args.n}, d = {args.d}; medians of {args.repeats}, CPU seconds for a whole order")
    with threadpool_limits(1):
        for name, (selector, others) in rivals.items():
            if args.only not in name:
                continue
            present = {rival: call for rival, call in others.items() if rival == "loop" or find_spec(rival)}
            took = medians(
                {"ours": lambda s=selector: list(s.rank(pool, np.random.default_rng(0))), **present}, args.repeats
            )
            ratios = [f"{rival} {took[rival]:.3f} s = {took[rival] / took['ours']:.1f} x ours" for rival in present]
            absent = [f"{rival} is not installed" for rival in others if rival not in present]
            print("; ".join([f"  {name} {took['ours']:.3f} s", *ratios, *absent]), flush=True)


if __name__ == "__main__":
    main()
