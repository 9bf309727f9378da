"""Pools and vectors in files, and a call of `select` on them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from harness.jobs.options import SelectConfig
from harness.jobs.selection import Chosen, select
from harness.system.progress import Progress
from support.paths import TOY

RESPONSES = ["say red", "say blue", "say green", "say red", "say pink and grey"]
LINES = [{"problem_id": f"test/{i}", "responses": RESPONSES, "prompt": f"Say colour {i} (test)."} for i in range(3)]


def written(path: Path, content: Any) -> Path:
    """The path, with a file of JSON lines (or of text) or, by its ending, of arrays."""
    if path.suffix == ".npz":
        np.savez(path, **content)
    elif path.suffix == ".safetensors":
        save_file(content, path)
    else:
        path.write_text(content if isinstance(content, str) else "".join(json.dumps(line) + "\n" for line in content))
    return path


def choose(folder: Path, selector: str, k: int, **options: Any) -> tuple[list[Chosen], str]:
    """The choice for every problem, and what is said on the way; the toy plugins are at hand, the store in `folder`."""
    out = io.StringIO()
    given = {"store": folder / "runs", "plugin_files": (TOY,)} | options
    return select(SelectConfig(selector=selector, k=k, **given), Progress(out)), out.getvalue()


def of_duplicates(n: int, d: int, seed: int) -> np.ndarray:
    """(n, d) rows far from the origin, of unequal size; four in ten are copies."""
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(n, d)) * rng.gamma(2.0, 1.0, size=(n, 1)) + 5 * rng.normal(size=d)
    h[6 * n // 10 :] = h[rng.integers(6 * n // 10, size=n - 6 * n // 10)]
    return h.astype(np.float32)
