"""What `harness pool push` and `harness pool pull` both know of a repository on the hub: it holds one pool.

A repository is `manifest.json`, a card, and per stage a folder of parquet files that the hub's viewer and `datasets`
read. A push is one commit, so a reader sees all of it or nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

from . import manifest as pool_manifest
from .dataset import HubDataset, Snapshot
from .manifest import Manifest


def read_manifest(hub: HubDataset, found: Snapshot, into: Path) -> Manifest:
    """The manifest of the repository at a commit, fetched into a folder; one line where it has none to be trusted."""
    with said_of(hub):
        file = found.files.get(pool_manifest.NAME)
        if file is None:
            raise HarnessError(f"no pool: the repository has no {pool_manifest.NAME}")
        if file.size > pool_manifest.MOST_BYTES:
            raise HarnessError(f"{pool_manifest.NAME} has {file.size:,} bytes: too many to be one")
    content = hub.download(pool_manifest.NAME, found.commit, into).read_bytes()
    with said_of(hub):
        return pool_manifest.parse(content)


@contextmanager
def said_of(hub: HubDataset) -> Iterator[None]:
    """Whatever is wrong with what a repository holds, with the repository's name before it."""
    try:
        yield
    except HarnessError as failure:
        raise HarnessError(f"{hub.doing}: {failure}") from failure


def sha256_of(source: Path | bytes) -> str:
    """The SHA-256 of a file or of bytes, in hex."""
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def counts(manifest: Manifest) -> dict[str, Any]:
    """What a command says of a pool: its key, problems, responses and tables."""
    pool = manifest.pool
    return {
        "pool": pool.key,
        "problems": len(pool.shards),
        "responses": pool.rows,
        "stages": [stage.folder for stage in manifest.stages],
        "prompts": manifest.prompts is not None,
    }
