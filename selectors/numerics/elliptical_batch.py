"""The elliptical order of many pools at once, in torch: for a GPU, where one pool alone leaves most of it idle.

A rank-one update a pick, of all pools and trials together: v = Λ h, every bonus falls by (h·v)²/(1 + h·v_picked),
Λ ← Λ − v vᵀ/(1 + ...). n d a pick instead of the n d² of the textbook loop, and nothing that a GPU would wait for: the
blocks of `elliptical` need fewer operations, but take decisions on the way. All in float64. A bonus b that began as b₀
is off by about eps b₀, as in the textbook loop; on features so badly scaled that this matters take the other one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from harness import HarnessError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TIE = 1e-10  # bonuses relatively this close count as equal, and the lowest index is taken
STEPS = 32  # picks that are made before they are fetched: fetching waits for the device


class BatchedOrders:
    """The greedy elliptical orders of p pools, t of each (one a trial); worked out as far as anyone has asked.

    h (p, n, d), any float dtype, finite. first (p, t): the first pick of each order, or None: the largest bonus.
    """

    def __init__(self, h: NDArray[np.floating], lam: float, first: NDArray[np.intp], device: torch.device) -> None:
        p, n, d = h.shape
        t = first.shape[1]
        self.h = torch.as_tensor(h, device=device).double()
        self.inverse = (torch.eye(d, dtype=torch.float64, device=device) / lam).expand(p, t, d, d).clone()
        self.bonus = (self.h.square().sum(-1) / lam)[:, None, :].expand(p, t, n).clone()
        self.next = torch.as_tensor(first, device=device)
        self.picks: list[NDArray[np.intp]] = []  # (p, t) each

    def order(self, pool: int, trial: int) -> Iterator[int]:
        """All n indices of one order, lazily."""
        for step in range(self.h.shape[1]):
            while step >= len(self.picks):
                self._advance(min(STEPS, self.h.shape[1] - step))
            yield int(self.picks[step][pool, trial])

    def _advance(self, steps: int) -> None:
        made = []
        for _ in range(steps):
            made.append(self.next)
            self._take(self.next)
            self.next = self._best()
        self.picks += list(torch.stack(made).cpu().numpy())

    def _take(self, picked: torch.Tensor) -> None:
        """Update Λ and all bonuses by the rows picked, (p, t) indices."""
        d = self.h.shape[2]
        rows = self.h.gather(1, picked[:, :, None].expand(-1, -1, d))  # (p, t, d)
        v = torch.einsum("ptde,pte->ptd", self.inverse, rows)
        s = 1 + (rows * v).sum(-1)  # (p, t)
        v = v / s.sqrt()[:, :, None]
        self.inverse -= v[:, :, :, None] * v[:, :, None, :]
        self.bonus -= torch.einsum("pnd,ptd->ptn", self.h, v).square()
        self.bonus.scatter_(2, picked[:, :, None], -torch.inf)

    def _best(self) -> torch.Tensor:
        """The index of the largest bonus in each order, (p, t); of equal ones the lowest."""
        best = self.bonus.amax(-1, keepdim=True)
        equal = self.bonus >= best - TIE * best.abs()
        return equal.to(torch.uint8).argmax(-1)


def torch_device(name: str) -> torch.device:
    """The device of that name; a HarnessError of one line where there is none."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device, dtype=torch.float64)
    except (RuntimeError, AssertionError, TypeError) as failure:
        reason = str(failure).strip().split("\n")[0]
        raise HarnessError(f"repexp: device {name!r} cannot be used here ({reason})") from failure
    return device


def longest_rows(h: NDArray[np.floating], trials: int) -> NDArray[np.intp]:
    """The first picks (p, trials) of orders that draw none: the row of the largest bonus, h (p, n, d)."""
    import numpy as np

    squares = np.einsum("pnd,pnd->pn", h, h, dtype=np.float64, casting="unsafe")
    first = (squares >= squares.max(axis=1, keepdims=True) * (1 - TIE)).argmax(axis=1)
    return np.repeat(first[:, None], trials, axis=1)
