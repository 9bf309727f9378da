"""Runs that stop at the first correct response, or at their budget: the Kaplan-Meier estimate, and restricted means.

A sequence without a correct response when its budget ends is *censored*: only a lower bound of its stopping time is
known. It counts as at risk up to that call and not afterwards (Kaplan and Meier, JASA 53, 1958). Times are whole
verifier calls, 1 = the first response; S(k) is the probability of no correct response in k calls, and

    share solved within k = 1 − S(k),    restricted mean at k = E min(T, k + 1) = S(0) + ... + S(k)

the latter as in `metrics.restricted`: calls used when stopping after k, and one more if none was correct.

Standard errors come from the infinitesimal jackknife, summed over each cluster first. Where each sequence is its own
cluster they equal Greenwood's (1926), term for term. Several seeds on one problem form one cluster, because they are
not independent. This module reads no pool: sequences and pools are never averaged together (docs/guided.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.records import Floats, Ints


@dataclass(frozen=True, eq=False)
class Survival:
    """The survival curve: S(k) for k = 0, 1, ... as `left` (calls + 1,), and the `influence` of each cluster on it.

    influence (clusters, calls + 1). The curve ends at the last call at which any sequence was still at risk; where S is
    0 at that call, it stays 0.
    """

    left: Floats
    influence: Floats

    def solved(self, k: int) -> tuple[float, float] | None:
        """The share solved within k calls and its standard error; None beyond the last call at risk, unless S is 0."""
        curve = self._until(k)
        return None if curve is None else (1 - float(curve[0][-1]), _error(curve[1][:, -1]))

    def restricted_mean(self, k: int) -> tuple[float, float] | None:
        """E min(T, k + 1) and its standard error; None beyond the last call at risk, unless S is 0."""
        curve = self._until(k)
        return None if curve is None else (float(curve[0].sum()), _error(curve[1].sum(axis=1)))

    def _until(self, k: int) -> tuple[Floats, Floats] | None:
        beyond = k + 1 - len(self.left)
        if beyond > 0 and self.left[-1] > 0:
            return None
        left = np.pad(self.left, (0, max(beyond, 0)))  # once all are solved, S stays 0
        influence = np.pad(self.influence, ((0, 0), (0, max(beyond, 0))))
        return left[: k + 1], influence[:, : k + 1]


def _error(influence: Floats) -> float:
    return float(np.sqrt((influence**2).sum()))


def kaplan_meier(times: Ints, solved: Sequence[Any], clusters: Sequence[Any]) -> Survival:
    """The Kaplan-Meier estimate of the stopping time; each argument has one entry for each sequence.

    times     the verifier call, from 1, at which the sequence was solved or its budget ended
    solved    whether it was solved; else it is censored
    clusters  labels: sequences with equal labels form one cluster
    """
    times, events = np.asarray(times, np.int64), np.asarray(solved, bool)
    calls = np.arange(1, int(times.max()) + 1)
    at_risk = times[:, None] >= calls  # (sequences, calls)
    ended = (times[:, None] == calls) & events[:, None]
    risk, deaths = at_risk.sum(0), ended.sum(0)
    left = np.cumprod(1 - deaths / risk)
    remaining = np.where(risk > deaths, risk - deaths, np.inf)  # inf where S becomes 0: its error is then 0 too
    per_sequence = np.cumsum((ended - at_risk * (deaths / risk)) / remaining, axis=1) * -left
    names = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    influence = np.zeros((len(names), len(calls)))
    np.add.at(influence, [names[name] for name in clusters], per_sequence)
    return Survival(np.concatenate([[1.0], left]), np.pad(influence, ((0, 0), (1, 0))))
