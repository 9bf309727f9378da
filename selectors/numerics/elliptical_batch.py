"""Compute the greedy elliptical orders of many pools at once, in torch: a single pool leaves most of a GPU idle.

    v = Λ h_picked,  s = 1 + h_picked·v        bonus(h) ← bonus(h) - (h·v)² / s,  Λ ← Λ - v vᵀ / s

These rank-one updates run for all pools and trials together. A pick costs n d operations, not the n d² of
`repexp.reference_order`, whose picks these must be: each pick has the best remaining bonus, within 1e-9 of it, by
`repexp.reference_bonuses`; ties within TIE go to the lowest index. The blocks of `elliptical` need fewer operations,
but a GPU would have to wait for their decisions.

All values are float64. A bonus b that began as b₀ has an error of about eps b₀, as in the reference. If features are
scaled so badly that this matters, use `elliptical`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from harness import HarnessError

from .vectors import TIE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEPS = 32  # picks that are made before they are copied to the CPU, because copying waits for the device


class BatchedOrders:
    """The greedy elliptical orders of p pools, t of each (one per trial), computed only as far as they are read.

    h (p, n, d), any float dtype, finite; first (p, t): the first pick of each order.
    """

    def __init__(self, h: NDArray[np.floating], lam: float, first: NDArray[np.intp], device: torch.device) -> None:
        p, n, d = h.shape
        t = first.shape[1]
        self.h = torch.as_tensor(h, device=device).double()
        self.inverse = (torch.eye(d, dtype=torch.float64, device=device) / lam).expand(p, t, d, d).clone()  # Λ
        self.bonus = (self.h.square().sum(-1) / lam)[:, None, :].expand(p, t, n).clone()
        self.next = torch.as_tensor(first, device=device)
        self.picks: list[NDArray[np.intp]] = []  # (p, t) each

    def order(self, pool: int, trial: int) -> Iterator[int]:
        """Yield all n indices of the order of one pool and trial, given by their numbers."""
        for step in range(self.h.shape[1]):
            while step >= len(self.picks):
                self._advance(min(STEPS, self.h.shape[1] - step))
            yield int(self.picks[step][pool, trial])

    def _advance(self, steps: int) -> None:
        picks = []
        for _ in range(steps):
            picks.append(self.next)
            self._take(self.next)
            self.next = self._best()
        self.picks += list(torch.stack(picks).cpu().numpy())

    def _take(self, picked: torch.Tensor) -> None:
        """Update Λ and all bonuses by the picked indices (p, t)."""
        d = self.h.shape[2]
        rows = self.h.gather(1, picked[:, :, None].expand(-1, -1, d))  # (p, t, d)
        v = torch.einsum("ptde,pte->ptd", self.inverse, rows)
        s = 1 + (rows * v).sum(-1)  # (p, t)
        v = v / s.sqrt()[:, :, None]
        self.inverse -= v[:, :, :, None] * v[:, :, None, :]
        self.bonus -= torch.einsum("pnd,ptd->ptn", self.h, v).square()
        self.bonus.scatter_(2, picked[:, :, None], -torch.inf)

    def _best(self) -> torch.Tensor:
        """Return the index of the largest bonus in each order (p, t); ties go to the lowest."""
        best = self.bonus.amax(-1, keepdim=True)
        equal = self.bonus >= best - TIE * best.abs()
        return equal.to(torch.uint8).argmax(-1)


def torch_device(name: str) -> torch.device:
    """Return the torch device of that name; HarnessError in one line if it cannot be used."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device, dtype=torch.float64)
    except (RuntimeError, AssertionError, TypeError) as failure:
        reason = str(failure).strip().split("\n")[0]
        raise HarnessError(f"repexp: device {name!r} cannot be used on this machine ({reason})") from failure
    return device


def longest_rows(h: NDArray[np.floating], trials: int) -> NDArray[np.intp]:
    """Return the index of each pool's longest row of h (p, n, d), once per trial: (p, trials).

    Its first bonus is the largest. Ties go to the lowest index.
    """
    import numpy as np

    squares = np.einsum("pnd,pnd->pn", h, h, dtype=np.float64, casting="unsafe")
    first = (squares >= squares.max(axis=1, keepdims=True) * (1 - TIE)).argmax(axis=1)
    return np.repeat(first[:, None], trials, axis=1)
