"""Read and write JSON in a store: plain files, records with a checksum, and manifests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.system.files import write_atomically, write_parts
from harness.system.json_text import parsed

from .checksums import BadShard, blank, read_regular, sealed
from .keys import canonical_json, digest
from .shard_files import CHECKSUM, content_of, unreadable


def json_bytes(value: Any) -> bytes:
    """A value as canonical JSON and a newline."""
    return (canonical_json(value) + "\n").encode("utf-8", "surrogatepass")


def write_json(path: Path, value: Any) -> None:
    """Write a value as canonical JSON."""
    write_atomically(path, json_bytes(value))


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    with unreadable(path):
        return parsed(read_regular(path), str(path), lenient=True)


def write_record(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON shard: the value, and the file's checksum as a further entry."""
    write_parts(path, sealed(path, json_bytes({CHECKSUM: blank(path), **value})))


def read_record(path: Path) -> dict[str, Any]:
    """Read what `write_record` wrote, without the checksum."""
    with unreadable(path):
        value: dict[str, Any] = parsed(content_of(path), str(path), lenient=True)
        return {name: entry for name, entry in value.items() if name != CHECKSUM}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the inputs that made a stage; HarnessError if the stage's key is not their hash."""
    inputs = read_json(folder / "manifest.json")
    if not isinstance(inputs, dict) or digest({"stage": folder.parent.name, **inputs}) != folder.name:
        raise BadShard(folder / "manifest.json", f"does not say what made {folder.name}")
    return inputs
