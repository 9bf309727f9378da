"""The random number generators that a whole process shares: Python's, numpy's legacy one and, where loaded, torch's."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

UNLIKELY = 728_364_501


def states() -> dict[str, bytes]:
    """Return library -> the state of its global generator (torch: only the CPU's), as bytes that can be compared."""
    by_library = {"random": pickle.dumps(random.getstate()), "numpy.random": pickle.dumps(np.random.get_state())}
    torch = sys.modules.get("torch")
    if torch is not None:
        by_library["torch"] = torch.get_rng_state().numpy().tobytes()
    return by_library


def touched_by(action: Callable[[], object]) -> list[str]:
    """Call the action; return the names of the libraries whose global generators it used or seeded.

    The generators start from an unlikely seed: code that sets a usual seed such as 0 then changes the state, and is
    noticed. Their states are restored afterwards.
    """
    with seeded(UNLIKELY):
        before = states()
        action()
        after = states()
    return [name for name in before if after[name] != before[name]]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all generators for the code inside, and restore their states afterwards."""
    with preserved():
        random.seed(seed)
        np.random.seed(seed)
        if torch := sys.modules.get("torch"):
            torch.manual_seed(seed)
        yield


@contextmanager
def preserved() -> Iterator[None]:
    """Restore the states of all generators after the code inside."""
    python_state, numpy_state, torch = random.getstate(), np.random.get_state(), sys.modules.get("torch")
    torch_state = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if torch is not None:
            torch.set_rng_state(torch_state)
