"""Similarities between all pairs of rows by their definitions, for comparison with selectors' own."""

import numpy as np
from scipy.spatial.distance import cdist, pdist


def reference_cosines(h):
    """x·y / (|x| |y|) of all pairs of rows, (n, n); a zero row has 0 with other rows and 1 with zero rows."""
    length = np.sqrt((h.astype(np.float64) ** 2).sum(axis=1))
    unit = h / np.where(length > 0, length, 1)[:, None]
    return unit @ unit.T + np.outer(length == 0, length == 0)


def reference_gaussian(h):
    """exp(-|x - y|² / (2 b²)) of all pairs of rows, (n, n); b is the median distance between two distinct rows."""
    rows = h.astype(np.float64)
    distances = pdist(np.unique(rows + 0.0, axis=0))
    width = np.median(distances) if len(distances) else 1.0
    return np.exp(-cdist(rows, rows, "sqeuclidean") / (2 * width**2))


def reference_tanimoto(h):
    """Σ x y / (Σ x² + Σ y² - Σ x y) of all pairs of rows, (n, n), one by one; 1 between zero rows."""

    def similarity(x, y):
        both = sum(x * y)
        either = sum(x * x) + sum(y * y) - both
        return both / either if either else 1.0

    return np.array([[similarity(x, y) for y in h.astype(np.float64)] for x in h.astype(np.float64)])


def reference_similarities(h, similarity):
    """s(x, p) of facility location for all pairs of rows of h, (n, n)."""
    if similarity == "tanimoto":
        return reference_tanimoto(h)
    if similarity == "cosine":
        return (1 + reference_cosines(h)) / 2
    if similarity == "rbf":
        return reference_gaussian(h)
    distance = cdist(h.astype(np.float64), h.astype(np.float64), "sqeuclidean")
    return distance.max() - distance
