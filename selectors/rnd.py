"""Random network distillation (Burda et al. 2018): pick where a predictor trained on the picks errs most.

    f: a fixed random network; g: another network, trained on the picks to predict the outputs of f
    error(x) = |f(x) - g(x)|²        pick a batch with the largest remaining errors; train g on it; repeat

Burda, Edwards, Storkey, Klimov, "Exploration by Random Network Distillation" (2018), arXiv:1810.12894: the error of g
is small where it was trained and stays large elsewhere: a bonus for novelty without counts. As in the paper, inputs are
whitened dimension by dimension and clipped to ±5, f and g have the same form, and g is trained with Adam.

We differ in scale, and in the order of the data:

- f and g have one hidden layer of `width` rectified units and `width` outputs. Their input is the response's vector.
- A batch is one pick at first, and one more for every 16 picks so far, up to `batch`: the first picks are made with
  care, the last cheaply. It holds no two equal vectors.
- No response comes twice. So each of the `steps` of an update trains on the newest batch and on as many older picks,
  a new random sample of them at each step, because g would forget them otherwise.

Everything is float64 on the CPU and uses the ranking's own rng. The full order of 6,400 x 512 takes some 7 CPU seconds.
This file is the reference form: there is no faster version. A test compares it with gradients and Adam by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import Pool

from .numerics.columns import Copies, Float64s, Ints, check_parameters, vectors_of

if TYPE_CHECKING:
    import torch

CLIP = 5.0
PICKS_FOR_ONE_MORE = 16


@dataclass(frozen=True)
class RandomNetworkDistillation:
    """Random network distillation (Burda et al. 2018): first the responses that a trained network predicts worst.

    The network is trained on the picks to predict the outputs of a fixed random network.

    batch  responses picked between two updates: 1 at first, 1 more for every 16 picks, up to `batch`
    steps  Adam steps in each update
    rate   Adam's learning rate
    width  units of the networks' hidden and output layers
    """

    reads: ClassVar[tuple[str, ...]] = ()
    libraries: ClassVar[tuple[str, ...]] = ("torch",)

    batch: int = 64
    steps: int = 16
    rate: float = 1e-3
    width: int = 64

    def __post_init__(self) -> None:
        check_parameters("rnd", self, batch=">= 1", steps=">= 1", width=">= 1", rate="> 0")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Yield all n indices, a batch at a time: the largest prediction errors, on which the predictor then trains.

        Ties go to the lowest index.
        """
        h = vectors_of(pool, "rnd")  # (n, d)
        if not len(h):
            return
        copies, centred = Copies(h), h.astype(np.float64) - h.mean(axis=0, dtype=np.float64)
        deviation = centred.std(axis=0)  # 0 for a constant dimension
        whitened = np.clip(centred / np.where(deviation > 0, deviation, 1), -CLIP, CLIP)
        distillation = _Distillation(whitened[copies.first], self.width, self.rate, rng)
        picked: list[int] = []  # rows, not indices
        while len(remaining := np.flatnonzero(copies.head < len(copies.row))):
            size = min(self.batch, 1 + len(picked) // PICKS_FOR_ONE_MORE)
            newest = remaining[np.argsort(-distillation.error(remaining), kind="stable")[:size]]
            for row in newest.tolist():
                yield copies.take(row)
            for _ in range(self.steps):
                older = rng.choice(picked, min(len(newest), len(picked)), replace=False) if picked else newest[:0]
                distillation.step(np.concatenate([newest, older]))
            picked += newest.tolist()


class _Distillation:
    """The fixed network's outputs for all rows, and the predictor that is trained to give them."""

    def __init__(self, rows: Float64s, width: int, rate: float, rng: np.random.Generator) -> None:
        import torch

        def network() -> list[torch.Tensor]:  # random weights and biases of two layers, for signals of size 1
            hidden = rng.normal(scale=np.sqrt(2 / rows.shape[1]), size=(rows.shape[1], width))
            output = rng.normal(scale=np.sqrt(2 / width), size=(width, width))
            return [torch.from_numpy(weights) for weights in (hidden, np.zeros(width), output, np.zeros(width))]

        self.x = torch.from_numpy(rows)  # (rows, d)
        self.target = self._outputs(network(), self.x)  # (rows, width)
        self.predictor = [weights.requires_grad_() for weights in network()]
        self.optimizer = torch.optim.Adam(self.predictor, rate)

    def _outputs(self, layers: Sequence[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        hidden, hidden_bias, output, output_bias = layers
        return (x @ hidden + hidden_bias).relu() @ output + output_bias

    def _squares(self, rows: Ints) -> torch.Tensor:
        return (self._outputs(self.predictor, self.x[rows]) - self.target[rows]).square()

    def error(self, rows: Ints) -> Float64s:
        """Return the squared error of the predictor at these rows, (len(rows),)."""
        return np.asarray(self._squares(rows).detach().sum(dim=1).numpy())

    def step(self, rows: Ints) -> None:
        """Train the predictor on these rows, one step."""
        self.optimizer.zero_grad()
        self._squares(rows).mean().backward()
        self.optimizer.step()
