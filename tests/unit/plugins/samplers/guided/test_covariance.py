"""The token covariance of `repexp-guided` against numpy's inverse of the matrix as it is defined."""

import numpy as np
import pytest
import torch

from harness_plugins.samplers.guided import RepExpGuided
from harness_plugins.samplers.guided.covariance import TokenCovariance, centred, sherman_morrison, woodbury

LAM, WIDTH = 0.1, 12


def responses(seed: int = 0, offset: float = 3.0, lengths=(7, 1, 30)) -> list[torch.Tensor]:
    """Token states of a few responses, float32 as models give them, with a common part."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, offset, WIDTH)
    return [torch.tensor(common + rng.normal(0, 1, (t, WIDTH)), dtype=torch.float32) for t in lengths]


def by_definition(earlier: list[torch.Tensor], states: torch.Tensor) -> np.ndarray:
    """b of each state, with Σ summed and inverted as it is written."""
    h = np.concatenate([response.double().numpy() for response in earlier])
    sigma = LAM * np.eye(WIDTH)
    for row in h - h.mean(0):
        sigma += np.outer(row, row)
    g = states.double().numpy() - h.mean(0)
    return np.sqrt(np.einsum("ij,jk,ik->i", g, np.linalg.inv(sigma), g))


@pytest.mark.parametrize(("offset", "rtol"), [(3.0, 1e-9), (3000.0, 1e-8)])
def test_the_bonus_is_that_of_the_definition_after_every_response_also_for_states_far_from_nothing(offset, rtol):
    covariance, earlier = TokenCovariance(LAM), responses(offset=offset)
    candidates = responses(seed=1, offset=offset, lengths=(20,))[0] if offset == 3.0 else earlier[2] + 1
    for i, states in enumerate(earlier):
        covariance.add(states)
        expected = by_definition(earlier[: i + 1], candidates)
        np.testing.assert_allclose(covariance.bonus(candidates).numpy(), expected, rtol=rtol)
    assert covariance.count == 38


@pytest.mark.parametrize("update", [woodbury, sherman_morrison])
def test_both_updates_give_the_inverse(update):
    inverse, matrix = torch.eye(WIDTH, dtype=torch.float64) / LAM, LAM * np.eye(WIDTH)
    for states in responses(lengths=(7, 1, 200)):
        inverse = update(inverse, states.double())
        matrix += states.double().numpy().T @ states.double().numpy()
    np.testing.assert_allclose(inverse.numpy(), np.linalg.inv(matrix), rtol=1e-8, atol=1e-8)


def test_centring_is_one_rank_one_correction_of_the_uncentred_inverse():
    h = torch.cat(responses()).double()
    uncentred, of_centred = (woodbury(torch.eye(WIDTH).double() / LAM, states) for states in (h, h - h.mean(0)))
    np.testing.assert_allclose(centred(uncentred, h.mean(0), len(h)).numpy(), of_centred.numpy(), rtol=1e-7, atol=1e-9)


def test_a_second_response_like_the_first_lowers_the_bonus_and_a_mean_state_has_none():
    states = responses(lengths=(40,))[0]
    covariance = TokenCovariance(LAM)
    covariance.add(states)
    before = covariance.bonus(states)
    assert float(covariance.bonus(states.double().mean(0)[None])) < 1e-9
    covariance.add(states)
    assert (covariance.bonus(states) < before).all()


def test_the_guide_weighs_the_bonus_by_beta_and_has_none_for_the_first_response():
    guide, states = RepExpGuided(beta=0.7, lam=LAM).steering(), responses()
    assert not guide.adds
    guide.learn(states[0])
    assert guide.adds
    np.testing.assert_allclose(guide.added(states[2]).numpy(), 0.7 * by_definition(states[:1], states[2]), rtol=1e-9)
