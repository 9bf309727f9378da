"""A problem's responses for the pool browser: a map, answer clusters, verdicts, texts, and each selector's picks.

Rankings in the store end at a correct response. So the same selector ranks again, with the first trial's random
stream. The new order is shown only if it starts with the stored one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.columns.orders import centred
from harness.columns.stored import StoredProblem, key_of, picks, rebuilt, stored_problems
from harness.columns.vectors import embedded, project
from harness.errors import HarnessError, error_text
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.records import Floats, Pool, Problem

from .page import cut
from .results import Cell

ID, LONGEST, ANSWER = 200, 4000, 80  # characters; `page.fitted` cuts texts further if the page is too large
CLUSTERS = 7  # each of the largest clusters has its own colour and shape
OTHER, NONE = CLUSTERS, CLUSTERS + 1
GRID = 1000
PICKS = 512  # at most so many picks are shown, unless the stored ranking is longer
STORED = "the stored picks, up to the last that was needed"

Columns: TypeAlias = tuple[str | None, str | None]


class Browser:
    """Makes the view of each problem from the store, the cells and their selectors, which are built once.

    built   by a cell's key its selector, or why it cannot rank again
    """

    def __init__(self, root: Path, cells: Sequence[Cell], plugin_files: Sequence[Path]) -> None:
        self.root, self.cells, self.registry = root, cells, load_registry(plugin_files)
        self.built: dict[str, Any] = {}
        for cell in cells:
            spec = cell.content["labels"]["selector"]
            changed = HarnessError(f"selector {spec!r} is another version than the one that made this cell")
            try:
                self.built[cell.key] = rebuilt(self.registry, cell.content) or changed
            except HarnessError as failure:
                self.built[cell.key] = failure

    @cached_property
    def stored(self) -> dict[str, StoredProblem]:
        """The problems that the store holds completely, by id: their responses, verdicts and every cell's ranking."""
        first = self.cells[0].content
        return {
            name: problem
            for name, problem in stored_problems(self.root, first).items()
            if problem.has(first, "verdict") and all(problem.has(cell.content, "ranking") for cell in self.cells)
        }

    def view(self, entry: Mapping[str, Any], again: bool = True) -> dict[str, Any]:
        """Return everything that the page shows of one problem.

        again   whether the selectors rank again, to show picks beyond those in the store
        """
        stored, n = self.stored[entry["id"]], entry["n"]
        contents = {_columns(cell.content): cell.content for cell in self.cells}
        pools = {columns: stored.pool(content, n) for columns, content in contents.items()}
        pool = next(iter(pools.values()))
        vectors, embedder = self._map_vectors(stored, pools)
        labels, cluster, by = clusters(pool)
        place = {text: index for index, text in enumerate(dict.fromkeys(pool.texts))}
        return {
            "id": cut(stored.problem.id, ID),
            "prompt": cut(stored.problem.prompt, LONGEST),
            "n": n,
            "c": entry["c"],
            "texts": [cut(text, LONGEST) for text in place],
            "text": [place[text] for text in pool.texts],
            "verdict": "".join(verdict[0] for verdict in stored.verdicts(self.cells[0].content, n)),
            "cluster": cluster,
            "answers": labels,
            "coloured_by": by,
            "map": flat(vectors) | {"of": embedder},
            "picks": [self._picks(cell, stored, pools[_columns(cell.content)], vectors, again) for cell in self.cells],
        }

    def _map_vectors(self, stored: StoredProblem, pools: Mapping[Columns, Pool]) -> tuple[Floats, str]:
        """The map's vectors, centred, and their embedder: the one most cells use, or TF-IDF if no cell uses vectors."""
        keys = Counter(key for cell in self.cells if (key := key_of(cell.content, "embedding")))
        for key, _ in keys.most_common(1):
            content = next(cell.content for cell in self.cells if key_of(cell.content, "embedding") == key)
            return pools[_columns(content)].embeddings, str(content["labels"]["embedder"])
        tfidf, texts = build(self.registry, "embedder", "tfidf"), next(iter(pools.values())).texts
        rows = project(embedded(tfidf, "tfidf", stored.problem, texts), 512, 0, "tfidf")
        return centred(rows)["embeddings"], "tfidf"

    def _picks(self, cell: Cell, stored: StoredProblem, pool: Pool, fallback: Floats, again: bool) -> dict[str, Any]:
        """The selector's picks in the first trial, and the rank that counts in each trial.

        `values` says how novel each pick was when it was picked, `figure` what that is: the bonus of a selector that
        has one, else the distance to the nearest earlier pick, in the vectors that it reads or the map's.
        """
        if cell.kind == "subset":
            sets = (stored.ranking(cell.content)["trials"] or [{}])[0]
            return {"sets": sets, "note": "" if sets else "too few are correct, so none was chosen"}
        entry, selector = cell.by_id[stored.problem.id], self.built[cell.key]
        first = (entry["orders"] or [[]])[0]
        order, note = self.order(cell, pool, stored.problem, first) if again else (first, STORED)
        h = np.asarray((pool.embeddings if pool.embeddings.shape[1] else fallback)[list(order)], float)
        if hasattr(selector, "bonuses"):
            figure, values = selector.bonus, selector.bonuses(h)
        else:
            figure, values = "distance to the nearest earlier pick", nearest_earlier(h)
        short = [None if value is None or not np.isfinite(value) else float(f"{value:.3g}") for value in values]
        return {"order": order, "note": note, "ranks": entry["ranks"], "figure": figure, "values": short}

    def order(self, cell: Cell, pool: Pool, problem: Problem, stored: Sequence[int]) -> tuple[list[int], str]:
        """Return the first trial's order, and "" if it is complete, otherwise why it is not.

        stored   the picks of the first trial that the store has
        """
        try:
            if isinstance(self.built[cell.key], HarnessError):
                raise self.built[cell.key]
            order = picks(self.built[cell.key], cell.content, pool, problem, 0, most=max(PICKS, len(stored)))
            if order[: len(stored)] != list(stored):
                raise HarnessError("this machine's order differs from them")
        except Exception as failure:  # a selector is foreign code; whatever it raises, the page can be made
            return list(stored), f"only the stored picks are shown: {error_text(failure)}"
        return order, "" if len(order) == len(pool) else f"the first {len(order)} picks are shown"


def _columns(cell: Mapping[str, Any]) -> Columns:
    """The keys of the vectors and of a scorer's scores that the cell's selector reads; None: of none."""
    return key_of(cell, "embedding"), key_of(cell, "score")


def nearest_earlier(h: Floats) -> list[float | None]:
    """Return the Euclidean distance of each row of h (m, d) to the nearest earlier row; None for the first."""
    square = (h**2).sum(axis=1)
    distances = np.sqrt(np.maximum(square[:, None] + square - 2 * (h @ h.T), 0.0))
    return [None if row == 0 else float(distances[row, :row].min()) for row in range(len(h))]


def clusters(pool: Pool) -> tuple[list[list[Any]], list[int], str]:
    """Return [label, size] of the largest answer clusters, each response's cluster, and "answer" or "text".

    The last says what the responses of a cluster have in common: the text if no response has an extracted answer. A
    response's cluster is its place in the list, `OTHER` (a smaller cluster) or `NONE` (no answer).
    """
    by_text = all(answer is None for answer in pool.answers)
    keys = [text.strip() for text in pool.texts] if by_text else pool.answers
    sizes = Counter(key for key in keys if key is not None)
    largest = sorted(sizes, key=lambda key: (-sizes[key], key))[:CLUSTERS]
    number = {key: place for place, key in enumerate(largest)}
    members = [NONE if key is None else number.get(key, OTHER) for key in keys]
    return [[cut(key, ANSWER), sizes[key]] for key in largest], members, "text" if by_text else "answer"


def flat(vectors: Floats) -> dict[str, Any]:
    """Project centred vectors (n, d) on their first two principal components, on a grid of 1,000.

    Returns a dict: `x` and `y` of each vector (whole numbers), and `variance`, the two components' share of it (None if
    all vectors are 0). Both axes have the same scale. The entry of largest magnitude fixes each sign, so that the map
    is the same on every machine.
    """
    h = np.asarray(vectors, float)
    n, d = h.shape
    if not h.size or not np.abs(h).max() > 0:
        return {"x": [GRID // 2] * n, "y": [GRID // 2] * n, "variance": None}
    values, axes = np.linalg.eigh(h @ h.T if n <= d else h.T @ h)  # the smaller of the two Gram matrices
    values, axes = values[::-1].clip(0), axes[:, ::-1][:, :2]
    points = axes * np.sqrt(values[:2]) if n <= d else h @ axes
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    points = points * np.where(points[np.abs(points).argmax(axis=0), [0, 1]] < 0, -1, 1)
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    scaled = (points / (2 * np.abs(points).max()) + 0.5) * GRID if np.abs(points).max() > 0 else points + GRID / 2
    x, y = scaled.round().astype(int).T.tolist()
    return {"x": x, "y": y, "variance": round(float(values[:2].sum() / values.sum()), 3)}
