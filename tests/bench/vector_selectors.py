"""Time the rankers and subset methods on vectors against the libraries and plain loops that one would otherwise take.

    python tests/bench/vector_selectors.py [--n 6400] [--d 512] [--data clustered] [--repeats 3] [--only kcenter]

One thread. A ranker and its rivals are timed in turn, `repeats` times, and the medians compared. Seconds are CPU
seconds of the process, which other load disturbs less than wall time. A rival that would take minutes makes its first
picks only, and ours as many. Rivals make the similarities that they need by numpy, in float32 where they take it.
apricot, submodlib and DPPy take part where they are installed; what does not is said. apricot compiles its loop anew at
every call, so what one pick from ten rows costs is printed too.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from repexp import clustered, gaussian
from sklearn import cluster
from threadpoolctl import threadpool_limits

from harness import Pool
from harness_selectors.dpp_map import DPPMap
from harness_selectors.facility_location import FacilityLocation
from harness_selectors.k_dpp import KDPP
from harness_selectors.kcenter import KCenter
from harness_selectors.kmeans import KMeans, KMeansPP
from harness_selectors.mmr import MMR
from harness_selectors.numerics.similarity import Gaussian

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

Floats = NDArray[np.floating[Any]]
FEW = 16  # picks of a short ranking
SOME = 1000  # picks that slow rivals are timed on


@dataclass(frozen=True)
class Race:
    """Ours, and its rivals: each with the package it needs ("" for none) and the picks it makes (None = all)."""

    ours: Any
    rivals: list[tuple[str, str, int | None, Callable[[], object]]]


def pool_of(h: Floats) -> Pool:
    n, rng = len(h), np.random.default_rng(1)
    lengths = rng.integers(20, 400, n)
    return Pool([""] * n, h, -0.3 * lengths * rng.gamma(4.0, 0.25, n), lengths, [None] * n)


# Plain loops: all n values renewed at every pick by one matrix-vector product.


def nearest_loop(h: Floats, choose: Callable[[Floats], int]) -> list[int]:
    """The squared distance to the nearest pick by |x|² + |p|² - 2 x·p in h's dtype; `choose` takes the next."""
    norm = np.einsum("ij,ij->i", h, h)
    distance, order = np.full(len(h), np.inf, h.dtype), [0]
    while len(order) < len(h):
        p = order[-1]
        np.minimum(distance, norm + norm[p] - 2 * (h @ h[p]), out=distance)
        distance[p] = -np.inf
        order.append(choose(distance))
    return order


def exact_loop(h: Floats, picks: int) -> list[int]:
    """Farthest-first with distances by float64 differences, as exact as ours."""
    h = h.astype(np.float64)
    distance, order = np.full(len(h), np.inf), [0]
    while len(order) < picks:
        difference = h - h[order[-1]]
        np.minimum(distance, np.einsum("ij,ij->i", difference, difference), out=distance)
        order.append(int(distance.argmax()))
    return order


def d2_loop(h: Floats) -> list[int]:
    rng = np.random.default_rng(0)

    def draw(distance: Floats) -> int:
        total = np.maximum(distance, 0).cumsum(dtype=np.float64)
        return int(np.searchsorted(total, rng.random() * total[-1], side="right"))

    return nearest_loop(h, draw)


def mmr_loop(h: Floats, quality: Floats, alpha: float) -> list[int]:
    norm = np.linalg.norm(h, axis=1, keepdims=True)
    unit, score, likeness = h / norm, quality.copy(), np.full(len(h), -1, h.dtype)
    order = [int(quality.argmax())]
    while len(order) < len(h):
        np.maximum(likeness, unit @ unit[order[-1]], out=likeness)
        score = alpha * quality - (1 - alpha) * likeness
        score[order] = -np.inf
        order.append(int(score.argmax()))
    return order


def cosines(h: Floats) -> Floats:
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    return (1 + unit @ unit.T) / 2


def gaussian_kernel(h: Floats) -> Floats:
    return Gaussian.of(h, None).block(slice(None), slice(None))


def facility_loop(s: Floats, picks: int) -> list[int]:
    """All gains anew at every pick."""
    covered, order = np.zeros(len(s), s.dtype), []
    for _ in range(picks):
        gain = np.maximum(s - covered[:, None], 0).sum(axis=0)
        gain[order] = -np.inf
        order.append(int(gain.argmax()))
        np.maximum(covered, s[order[-1]], out=covered)
    return order


def cholesky_loop(h: Floats, picks: int) -> list[int]:
    """Chen et al. 2018, algorithm 1: one row of the factor a pick, of n entries; a row of the kernel when needed."""
    kernel = Gaussian.of(h, None)
    factor, left, order = np.empty((picks, len(h))), np.ones(len(h)), [0]
    for t in range(picks - 1):
        j = order[-1]
        row = kernel.block(np.array([j]), slice(None))[0]
        factor[t] = (row - factor[:t, j] @ factor[:t]) / np.sqrt(left[j] + 1e-6)
        left -= factor[t] ** 2
        left[j] = -np.inf
        order.append(int(left.argmax()))
    return order


# Libraries.


def apricot_facility(s: Floats, picks: int) -> object:
    import apricot

    return apricot.FacilityLocationSelection(picks, metric="precomputed", optimizer="lazy").fit(s)


def submodlib_facility(s: Floats, picks: int) -> object:
    import submodlib

    function = submodlib.FacilityLocationFunction(n=len(s), mode="dense", sijs=s, separate_rep=False)
    return function.maximize(budget=picks, optimizer="LazyGreedy", show_progress=False)


def submodlib_dpp(kernel: Floats, picks: int) -> object:
    import submodlib

    function = submodlib.LogDeterminantFunction(n=len(kernel), mode="dense", lambdaVal=1e-6, sijs=kernel)
    return function.maximize(budget=picks, optimizer="LazyGreedy", show_progress=False)


def dppy_sample(kernel: Floats, k: int) -> object:
    from dppy.finite_dpps import FiniteDPP

    return FiniteDPP("likelihood", L=kernel).sample_exact_k_dpp(k, random_state=0)


def rankers(h: Floats) -> dict[str, Race]:
    n, some, few, pool = len(h), min(SOME, len(h) - 1), min(256, len(h) // 4), pool_of(h)
    quality = (pool.logprobs / pool.lengths).astype(np.float32)
    return {
        "kcenter": Race(
            KCenter(),
            [
                ("float32 loop", "", None, lambda: nearest_loop(h, lambda distance: int(distance.argmax()))),
                ("float64 loop by differences", "", 100, lambda: exact_loop(h, 100)),
            ],
        ),
        "kmeans-pp": Race(
            KMeansPP(),
            [
                ("float32 loop", "", None, lambda: d2_loop(h)),
                ("scikit-learn kmeans_plusplus", "", few, lambda: cluster.kmeans_plusplus(h, few, random_state=0)),
            ],
        ),
        "mmr": Race(MMR(), [("float32 loop", "", None, lambda: mmr_loop(h, quality, 0.5))]),
        "facility-location": Race(
            FacilityLocation(),
            [
                ("float32 loop", "", 20, lambda: facility_loop(cosines(h), 20)),
                ("apricot, lazy", "apricot", None, lambda: apricot_facility(cosines(h), n)),
                ("(apricot, compiling only)", "apricot", None, lambda: apricot_facility(cosines(h[:10]), 1)),
                ("submodlib, LazyGreedy", "submodlib", None, lambda: submodlib_facility(cosines(h), n - 1)),
            ],
        ),
        "dpp-map": Race(
            DPPMap(),
            [
                ("float64 loop (Chen et al.)", "", some, lambda: cholesky_loop(h, some)),
                ("submodlib, LazyGreedy", "submodlib", some, lambda: submodlib_dpp(gaussian_kernel(h), some)),
            ],
        ),
        "dpp-map:kernel=cosine": Race(DPPMap("cosine"), []),
    }


def subsets(h: Floats) -> dict[str, tuple[Any, int, list[tuple[str, str, Callable[[], object]]]]]:
    few, k = h[:1600], min(256, len(h) // 4)
    lloyd = partial(cluster.KMeans, k, n_init=1, random_state=0)
    return {
        f"kmeans, k = {k}": (KMeans(), k, [("scikit-learn KMeans", "", lambda: lloyd().fit(h))]),
        f"k-dpp:kernel=rbf, n = {len(few)}, k = 64": (
            KDPP("rbf"),
            64,
            [("DPPy", "dppy", lambda: dppy_sample(gaussian_kernel(few), 64))],
        ),
    }


def medians(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """CPU seconds of each call, all taken in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            started = time.process_time()
            call()
            seconds[name].append(time.process_time() - started)
    return {name: median(times) for name, times in seconds.items()}


def order(selector: Any, h: Floats, picks: int | None = None) -> list[int]:
    return list(islice(selector.rank(pool_of(h), np.random.default_rng(0)), picks))


def race(name: str, entry: Race, h: Floats, repeats: int) -> None:
    calls: dict[str, Callable[[], object]] = {"all": partial(order, entry.ours, h)}
    calls[f"first {FEW}"] = partial(order, entry.ours, h, FEW)
    present = [rival for rival in entry.rivals if not rival[1] or find_spec(rival[1])]
    for rival, _, picks, call in present:
        calls[rival] = call
        calls.setdefault(f"first {picks}" if picks else "all", partial(order, entry.ours, h, picks))
    took = medians(calls, repeats)
    print(f"  {name}: all {len(h)} picks {took['all']:.3f} s, the first {FEW} {took[f'first {FEW}']:.3f} s")
    for rival, _, picks, _ in present:
        ours = took[f"first {picks}" if picks else "all"]
        made = f"{picks} picks" if picks else "all picks"
        print(f"    {rival}: {made} {took[rival]:.3f} s = {took[rival] / ours:.1f} x ours")
    _say_absent(entry.rivals)


def race_subsets(h: Floats, repeats: int, only: str) -> None:
    for name, (selector, k, rivals) in subsets(h).items():
        if only in name:
            rows = h[:1600] if isinstance(selector, KDPP) else h
            calls: dict[str, Callable[[], object]] = {
                "ours": lambda s=selector, r=rows, k=k: s.select(pool_of(r), k, np.random.default_rng(0))
            }
            calls |= {rival: call for rival, package, call in rivals if not package or find_spec(package)}
            took = medians(calls, repeats)
            cells = [
                f"{rival} {took[rival]:.3f} s = {took[rival] / took['ours']:.1f} x ours" for rival in list(calls)[1:]
            ]
            print("; ".join([f"  {name}: {took['ours']:.3f} s", *cells]))
            _say_absent(rivals)


def _say_absent(rivals: list[Any]) -> None:
    absent = dict.fromkeys(rival[1] for rival in rivals if rival[1] and not find_spec(rival[1]))
    if absent:
        print(f"    not installed, so not raced: {', '.join(absent)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=6400)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--data", choices=["clustered", "gaussian"], default="clustered")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="those whose name contains this")
    args = parsed(parser, n=100, d=8, repeats=1)
    warnings.simplefilter("ignore")  # what old libraries say of new ones
    h = {"clustered": clustered, "gaussian": gaussian}[args.data](args.n, args.d, np.random.default_rng(0))
    print(f"{args.data}, n = {args.n}, d = {args.d}; medians of {args.repeats}, CPU seconds")
    with threadpool_limits(1):
        for name, entry in rankers(h).items():
            if args.only in name:
                race(name, entry, h, args.repeats)
        race_subsets(h, args.repeats, args.only)


if __name__ == "__main__":
    main()
