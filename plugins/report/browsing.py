"""Prepare a problem's responses for the pool browser: a map, answer clusters, verdicts, texts and picks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.columns.orders import centred
from harness.columns.stored import StoredProblem, key_of, stored_problems
from harness.columns.vectors import embedded, project
from harness.plugin_system.component import build
from harness.records import Floats, Pool

from .chosen import Cell
from .index import ID
from .orders import PICKS, Rankers
from .visible import cut

MOST_PROBLEMS = 100
LONGEST = 4000  # characters of a text; `page.fitted` cuts further if the page is too large
ANSWER = 80
CLUSTERS = 7  # each of the largest clusters has its own colour and shape
OTHER, NONE = CLUSTERS, CLUSTERS + 1
GRID = 1000
BYTES = 2_600_000
STORED = "the stored picks, up to the first correct one"

Columns: TypeAlias = tuple[str | None, str | None]


def sampled(
    entries: Sequence[Mapping[str, Any]], most: int, seed: str, always: Collection[str] = ()
) -> list[Mapping[str, Any]]:
    """Return one problem from each of `most` equal parts of problems that are sorted by hardness; all if they are few.

    The hash of seed and id decides which one of a part, so that the same store always shows the same problems. One with
    an id in `always` is taken instead.
    """
    if len(entries) <= most:
        return list(entries)
    parts = np.array_split(np.arange(len(entries)), most)
    lots = {entry["id"]: (entry["id"] not in always, _lot(seed, entry["id"])) for entry in entries}
    return [min((entries[place] for place in part), key=lambda entry: lots[entry["id"]]) for part in parts]


def _lot(seed: str, problem_id: str) -> bytes:
    return hashlib.sha256(f"{seed} {problem_id}".encode("utf-8", "surrogatepass")).digest()


def most_in_page(entries: Sequence[Mapping[str, Any]], selectors: int) -> int:
    """How many problems the page itself holds, if a response takes 24 bytes and a short text, and a pick 10 bytes."""
    n = max(entry["n"] for entry in entries)
    return int(np.clip(BYTES // (n * 60 + min(n, PICKS) * selectors * 10), 1, MOST_PROBLEMS))


@dataclass(frozen=True)
class Browser:
    """Makes the view of each problem from the store, the cells and their selectors."""

    root: Path
    cells: Sequence[Cell]
    plugin_files: Sequence[Path]

    @cached_property
    def stored(self) -> dict[str, StoredProblem]:
        """The problems that the store holds completely, by id: their responses, verdicts and every cell's ranking."""
        first = self.cells[0].content
        return {
            name: problem
            for name, problem in stored_problems(self.root, first).items()
            if problem.has(first, "verdict") and all(problem.has(cell.content, "ranking") for cell in self.cells)
        }

    @cached_property
    def rankers(self) -> Rankers:
        """The cells' selectors, built again."""
        return Rankers(self.cells, self.plugin_files)

    def view(self, entry: Mapping[str, Any], again: bool = True) -> dict[str, Any]:
        """Return everything that the page shows of one problem.

        again   whether the selectors rank again, to show picks beyond those in the store
        """
        stored, n = self.stored[entry["id"]], entry["n"]
        pools = self._pools(stored, n)
        pool = next(iter(pools.values()))
        vectors, embedder = self._map_vectors(stored, pools)
        labels, cluster, by = clusters(pool)
        texts = list(dict.fromkeys(pool.texts))
        place = {text: index for index, text in enumerate(texts)}
        return {
            "id": cut(stored.problem.id, ID),
            "prompt": cut(stored.problem.prompt, LONGEST),
            "n": n,
            "c": entry["c"],
            "texts": [cut(text, LONGEST) for text in texts],
            "text": [place[text] for text in pool.texts],
            "verdict": "".join(verdict[0] for verdict in stored.verdicts(self.cells[0].content, n)),
            "cluster": cluster,
            "answers": labels,
            "coloured_by": by,
            "map": flat(vectors) | {"of": embedder},
            "picks": [self.picks(cell, stored, pools[_columns(cell.content)], vectors, again) for cell in self.cells],
        }

    def _pools(self, stored: StoredProblem, n: int) -> dict[Columns, Pool]:
        """The problem's pool with the vectors and the scores that each cell's selector reads, by their keys."""
        contents = {_columns(cell.content): cell.content for cell in self.cells}
        return {columns: stored.pool(content, n) for columns, content in contents.items()}

    def _map_vectors(self, stored: StoredProblem, pools: Mapping[Columns, Pool]) -> tuple[Floats, str]:
        """The map's vectors, centred, and their embedder: the one most cells use, or TF-IDF if no cell uses vectors."""
        keys = Counter(key for cell in self.cells if (key := key_of(cell.content, "embedding")))
        if keys:
            most = max(keys, key=lambda key: keys[key])
            content = next(cell.content for cell in self.cells if key_of(cell.content, "embedding") == most)
            return pools[_columns(content)].embeddings, str(content["labels"]["embedder"])
        tfidf = build(self.rankers.registry, "embedder", "tfidf")
        texts = next(iter(pools.values())).texts
        return centred(project(embedded(tfidf, "tfidf", stored.problem, texts), 512, 0, "tfidf")), "tfidf"

    def picks(
        self, cell: Cell, stored: StoredProblem, pool: Pool, fallback: Floats, again: bool = True
    ) -> dict[str, Any]:
        """The selector's picks in the first trial, and the rank of the first correct response in each trial."""
        if cell.kind == "subset":
            sets = (stored.ranking(cell.content)["trials"] or [{}])[0]
            return {"sets": sets, "note": "" if sets else "no response is correct, so none was chosen"}
        first = (cell.by_id[stored.problem.id]["orders"] or [[]])[0]
        order, note = self.rankers.order(cell, pool, stored.problem, first) if again else (first, STORED)
        vectors = pool.embeddings if pool.embeddings.shape[1] else fallback
        novelty = self.rankers.novelty(cell, order, vectors)
        return {"order": order, "note": note, "ranks": cell.by_id[stored.problem.id]["ranks"], **novelty}


def _columns(cell: Mapping[str, Any]) -> Columns:
    """The keys of the vectors and of a scorer's scores that the cell's selector reads; None: of none."""
    return key_of(cell, "embedding"), key_of(cell, "score")


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
    if not h.size or not np.abs(h).max() > 0:
        return {"x": [GRID // 2] * len(h), "y": [GRID // 2] * len(h), "variance": None}
    points, variance = _plane(h)
    points = points * np.where(points[np.abs(points).argmax(axis=0), [0, 1]] < 0, -1, 1)
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    scaled = (points / (2 * np.abs(points).max()) + 0.5) * GRID if np.abs(points).max() > 0 else points + GRID / 2
    x, y = scaled.round().astype(int).T.tolist()
    return {"x": x, "y": y, "variance": round(variance, 3)}


def _plane(h: Floats) -> tuple[Floats, float]:
    """Project h (n, d) on its first two principal axes, (n, 2), with their share of the variance.

    Uses the smaller of the two Gram matrices.
    """
    n, d = h.shape
    values, axes = np.linalg.eigh(h @ h.T if n <= d else h.T @ h)
    values, axes = values[::-1].clip(0), axes[:, ::-1][:, :2]
    points = axes * np.sqrt(values[:2]) if n <= d else h @ axes
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1]))), float(values[:2].sum() / values.sum())
