"""Prepare one problem's responses for the pool browser: a map, answer clusters, verdicts, texts and picks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.plugin_system.component import build
from harness.records import Floats, Pool
from harness.results.stored_cells import StoredProblem, key_of, stored_problems
from harness.stages.embed import embedded
from harness.stages.project import project
from harness.stages.rank import centred
from harness.system.progress import Progress

from .chosen import Cell
from .orders import PICKS, Rankers
from .visible import cut

MOST_PROBLEMS = 100
LONGEST = 4000  # characters of a text; `page.fitted` cuts further if the page is too large
ANSWER = 80
CLUSTERS = 7  # each of the largest clusters has its own colour and shape
OTHER, NONE = CLUSTERS, CLUSTERS + 1
GRID = 1000
BYTES = 2_600_000


def browsable(
    root: Path, cells: Sequence[Cell], plugin_files: Sequence[Path], progress: Progress
) -> tuple[list[dict[str, Any]], str]:
    """Return the problems to browse, the hardest first, and a remark ("" if none) on those that cannot be shown."""
    entries = cells[0].problems
    stored = {
        name: problem for name, problem in stored_problems(root, cells[0].content).items() if _is_whole(problem, cells)
    }
    available = [entry for entry in entries if entry["id"] in stored]
    if not available:
        return [], "The responses of this run are not in the store, so there is nothing to browse."
    sample = sampled(available, _most(available, len(cells)), str(key_of(cells[0].content, "pool")))
    browser = _Browser(cells, Rankers(cells, plugin_files))
    views = []
    with progress.stage("report", len(sample), "problems") as stage:
        for entry in sample:
            views.append(browser.view(stored[entry["id"]], entry))
            stage.advance()
    lacking = len(entries) - len(available)
    return views, f"{lacking:,} problems have no responses in the store." if lacking else ""


def _is_whole(stored: StoredProblem, cells: Sequence[Cell]) -> bool:
    """Whether the store also holds the verdicts and every cell's ranking."""
    return stored.has(cells[0].content, "verdict") and all(stored.has(cell.content, "ranking") for cell in cells)


def sampled(entries: Sequence[Mapping[str, Any]], most: int, seed: str) -> list[Mapping[str, Any]]:
    """Return one problem from each of `most` equal parts of the problems sorted by hardness, the hardest first.

    Hardness is the share of correct responses, then the id. If there are at most `most` problems, all are returned. The
    hash of seed and id decides which one of a part, so that the same store always shows the same problems.
    """
    ordered = sorted(entries, key=lambda entry: (entry["c"] / max(entry["n"], 1), entry["id"]))
    if len(ordered) <= most:
        return ordered
    parts = np.array_split(np.arange(len(ordered)), most)
    return [min((ordered[place] for place in part), key=lambda entry: _lot(seed, entry["id"])) for part in parts]


def _lot(seed: str, problem_id: str) -> bytes:
    return hashlib.sha256(f"{seed} {problem_id}".encode("utf-8", "surrogatepass")).digest()


def _most(entries: Sequence[Mapping[str, Any]], selectors: int) -> int:
    """How many problems to prepare, if a response takes 24 bytes and a short text, and a pick 10 bytes."""
    n = max(entry["n"] for entry in entries)
    return int(np.clip(BYTES // (n * 60 + min(n, PICKS) * selectors * 10), 1, MOST_PROBLEMS))


@dataclass(frozen=True)
class _Browser:
    """Makes the view of each problem from the cells and their selectors."""

    cells: Sequence[Cell]
    rankers: Rankers

    def view(self, stored: StoredProblem, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return everything that the page shows of one problem."""
        problem, n = stored.problem, entry["n"]
        read = {key_of(cell.content, "embedding"): cell.content for cell in self.cells}
        pools = {key: stored.pool(content, n) for key, content in read.items()}
        pool = next(iter(pools.values()))
        vectors, embedder = self.map_vectors(stored, pool)
        labels, cluster, by = clusters(pool)
        texts = list(dict.fromkeys(pool.texts))
        place = {text: index for index, text in enumerate(texts)}
        return {
            "id": cut(problem.id, 200),
            "prompt": cut(problem.prompt, LONGEST),
            "n": n,
            "c": entry["c"],
            "texts": [cut(text, LONGEST) for text in texts],
            "text": [place[text] for text in pool.texts],
            "verdict": "".join(verdict[0] for verdict in stored.verdicts(self.cells[0].content, n)),
            "cluster": cluster,
            "answers": labels,
            "coloured_by": by,
            "map": flat(vectors) | {"of": embedder},
            "picks": [
                self.picks(cell, stored, pools[key_of(cell.content, "embedding")], vectors) for cell in self.cells
            ],
        }

    def map_vectors(self, stored: StoredProblem, pool: Pool) -> tuple[Floats, str]:
        """The map's vectors, centred, and their embedder: the one most cells use, or TF-IDF if no cell uses vectors."""
        keys = Counter(key for cell in self.cells if (key := key_of(cell.content, "embedding")))
        if keys:
            most = max(keys, key=lambda key: keys[key])
            content = next(cell.content for cell in self.cells if key_of(cell.content, "embedding") == most)
            return centred(stored.vectors(content, len(pool))), str(content["labels"]["embedder"])
        tfidf = build(self.rankers.registry, "embedder", "tfidf")
        return centred(project(embedded(tfidf, "tfidf", stored.problem, pool.texts), 512, 0)), "tfidf"

    def picks(self, cell: Cell, stored: StoredProblem, pool: Pool, fallback: Floats) -> dict[str, Any]:
        """The selector's picks in the first trial, and the rank of the first correct response in each trial."""
        trials = stored.ranking(cell.content)["trials"]
        first = trials[0] if trials else []
        entry = next(entry for entry in cell.problems if entry["id"] == stored.problem.id)
        if cell.kind == "subset":
            return {"sets": first or {}, "note": "" if first else "no response is correct, so none was chosen"}
        order, note = self.rankers.order(cell, pool, stored.problem, first)
        vectors = pool.embeddings if pool.embeddings.shape[1] else fallback
        novelty = self.rankers.novelty(cell, order, vectors)
        return {"order": order, "note": note, "ranks": entry["ranks"], **novelty}


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
