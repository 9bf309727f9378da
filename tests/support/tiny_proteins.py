"""Random protein sequences."""

import numpy as np


def sequences(count: int, length: int, seed: int = 0) -> list[str]:
    """Random sequences of the twenty amino acids."""
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), length)) for _ in range(count)]
