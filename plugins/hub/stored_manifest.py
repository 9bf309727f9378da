"""Read the manifest of a pool's repository on the hub, for `harness pool push` and `harness pool pull`.

A repository holds one pool: `manifest.json`, a card, and for each stage a folder of parquet files that the hub's viewer
and `datasets` can read. A push is one commit, so a reader sees all of it or nothing.
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


def read_manifest(hub: HubDataset, snapshot: Snapshot, into: Path) -> Manifest:
    """Download a snapshot's manifest to a folder and return it; HarnessError, one line, if it is missing or invalid."""
    with prefixed_by(hub):
        file = snapshot.files.get(pool_manifest.NAME)
        if file is None:
            raise HarnessError(f"no pool: the repository has no {pool_manifest.NAME}")
        if file.size > pool_manifest.MOST_BYTES:
            raise HarnessError(f"{pool_manifest.NAME} has {file.size:,} bytes: too many to be one")
    content = hub.download(pool_manifest.NAME, snapshot.commit, into).read_bytes()
    with prefixed_by(hub):
        return pool_manifest.parse(content)


@contextmanager
def prefixed_by(hub: HubDataset) -> Iterator[None]:
    """Put the command and the repository's name before the message of any HarnessError raised inside the `with`."""
    try:
        yield
    except HarnessError as failure:
        raise HarnessError(f"{hub.doing}: {failure}") from failure


def sha256_of(source: Path | bytes) -> str:
    """Return the SHA-256 of a file or of bytes, in hex."""
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def counts(manifest: Manifest) -> dict[str, Any]:
    """Return what a command prints about a pool.

    pool                  its key
    problems, responses   their numbers
    stages                the names of the stages' folders in the repository
    prompts               whether the problems' texts are there
    """
    pool = manifest.pool
    return {
        "pool": pool.key,
        "problems": len(pool.shards),
        "responses": pool.rows,
        "stages": [stage.folder for stage in manifest.stages],
        "prompts": manifest.prompts is not None,
    }
