"""Random network distillation: the file's algorithm without torch, and what it is for."""

from itertools import islice

import numpy as np
from support.selector_pools import pool_of, ranked, recorded

from harness_selectors.rnd import RandomNetworkDistillation, _Distillation


def numpy_distillation(h, selector: RandomNetworkDistillation, seed: int) -> list[int]:
    """The file's algorithm without torch: gradients and Adam written out, with the same use of the rng."""
    rng = np.random.default_rng(seed)
    x = h - h.mean(axis=0)
    x = np.clip(x / x.std(axis=0), -5, 5)
    (n, d), width = x.shape, selector.width

    def network():
        first = rng.normal(size=(d, width)) * np.sqrt(2 / d), np.zeros(width)
        return [*first, rng.normal(size=(width, width)) * np.sqrt(2 / width), np.zeros(width)]

    target, net = network(), network()
    moment, square, order = [0.0] * 4, [0.0] * 4, []
    wanted = np.maximum(x @ target[0] + target[1], 0) @ target[2] + target[3]
    updates = 0
    while len(order) < n:
        error = ((np.maximum(x @ net[0] + net[1], 0) @ net[2] + net[3] - wanted) ** 2).sum(axis=1)
        error[order] = -1
        size = min(selector.batch, 1 + len(order) // 16, n - len(order))
        newest = np.argsort(-error, kind="stable")[:size]
        for _ in range(selector.steps):
            older = rng.choice(order, min(size, len(order)), replace=False) if order else []
            rows = np.concatenate([newest, older]).astype(int)
            hidden = np.maximum(x[rows] @ net[0] + net[1], 0)
            off = 2 * (hidden @ net[2] + net[3] - wanted[rows]) / (len(rows) * width)
            back = (off @ net[2].T) * (hidden > 0)
            gradients = [x[rows].T @ back, back.sum(axis=0), hidden.T @ off, off.sum(axis=0)]
            updates += 1
            for i, gradient in enumerate(gradients):
                moment[i] = 0.9 * moment[i] + 0.1 * gradient
                square[i] = 0.999 * square[i] + 0.001 * gradient**2
                step = np.sqrt(square[i] / (1 - 0.999**updates)) + 1e-8
                net[i] = net[i] - selector.rate * moment[i] / (1 - 0.9**updates) / step
        order += newest.tolist()
    return order


def test_distillation_is_that_of_a_numpy_loop():
    h = np.random.default_rng(14).normal(size=(24, 7))
    for batch, steps, width, rate in ((1, 16, 12, 0.001), (64, 4, 5, 0.01), (2, 3, 8, 0.001)):
        selector = RandomNetworkDistillation(batch=batch, steps=steps, width=width, rate=rate)
        assert ranked(selector, pool_of(embeddings=h), 15) == numpy_distillation(h, selector, 15)


def test_a_batch_holds_no_two_equal_vectors_and_nothing_is_trained_before_the_second_pick_is_pulled(monkeypatch):
    h = np.repeat(np.random.default_rng(18).normal(size=(30, 4)), 4, axis=0).astype(np.float32)
    h[:, 3] = np.tile([0.0, -0.0], 60)  # these are equal too
    order = ranked(RandomNetworkDistillation(batch=8, steps=1), pool_of(embeddings=h))
    start = 0
    while len({index // 4 for index in order[start:]}) >= (size := min(8, 1 + start // 16)):
        assert len({index // 4 for index in order[start : start + size]}) == size
        start += size
    assert start > 60
    steps = recorded(monkeypatch, _Distillation, "step", lambda *_: 1)
    ranking = RandomNetworkDistillation(steps=5).rank(pool_of(embeddings=h), np.random.default_rng(0))
    next(ranking)
    assert len(steps) == 0
    list(islice(ranking, 4))
    assert len(steps) == 20
    for rows in (np.zeros((5, 3)), np.full((5, 3), 0.1), np.array([[1.0, -0.0]] * 2 + [[1.0, 0.0]] * 3)):
        assert ranked(RandomNetworkDistillation(), pool_of(embeddings=rows.astype(np.float32))) == list(range(5))
