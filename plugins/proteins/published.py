"""The published checkpoints that the protein task uses: their locations, licences and sizes.

A checkpoint with a size that no published one has is random or a different model: it is refused unless
`test_weights=true` is given, and then its results are marked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.records import Weights
from harness.system.extras import hub_is_out_of_reach
from harness.system.json_text import read

from ..models.location import Location, content_hash, file_hashes

CHECKED = "looked up 2026-11"


@dataclass(frozen=True)
class Published:
    """A model as its owner publishes it; `sizes`: the values in its config for each published size."""

    name: str
    repo: str
    licence: str
    gigabytes: float
    sizes: Sequence[Mapping[str, int]]


ESM3 = Published(
    "ESM3-open",
    "biohub/esm3-sm-open-v1",
    f"MIT, (c) CZ Biohub, since 2026-07, Cambrian Non-Commercial before; {CHECKED}",
    2.8,
    [{"d_model": 1536, "n_heads": 24, "v_heads": 256, "n_layers": 48}],
)
ESMC = Published(
    "ESM C",
    "biohub/ESMC-600M",
    f"MIT, (c) CZ Biohub, since 2026-05; {CHECKED}",
    2.3,
    [
        {"hidden_size": 960, "num_hidden_layers": 30},
        {"hidden_size": 1152, "num_hidden_layers": 36},
        {"hidden_size": 2560, "num_hidden_layers": 80},
    ],
)
ESMFOLD = Published(
    "ESMFold v1",
    "facebook/esmfold_v1",
    f"MIT, (c) Meta; {CHECKED}",
    8.4,
    [{"hidden_size": 2560, "num_hidden_layers": 36, "num_blocks": 48}],
)


@dataclass(frozen=True)
class Copy:
    """A copy of a published model, in a folder or on the hub. Creating one downloads nothing.

    component     the name with which error messages begin
    model         a folder, or a repository of the hub; None = the published one
    revision      of a repository; None = its newest
    test_weights  the weights are random, for tests, and may have any size
    """

    component: str
    published: Published
    model: str | None
    revision: str | None
    test_weights: bool

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise HarnessError(f"{self.component}: model folder {self.folder} does not exist")
        if self.folder is not None and self.revision is not None:
            raise HarnessError(f"{self.component}: {self.model} is a folder, which has no revision {self.revision!r}")

    @cached_property
    def folder(self) -> Path | None:
        """The model's folder; None if `model` is a repository of the hub.

        `model` is a folder if it is absolute, starts with "." or "~", or is the name of a folder that exists.
        """
        path = Path(self.model or self.published.repo).expanduser()
        looks_like_path = os.path.isabs(path) or (self.model or "").startswith((".", "~"))
        return path if looks_like_path or path.is_dir() else None

    @property
    def source(self) -> str:
        """Return the hub's id, or the folder."""
        return str(self.folder or self.model or self.published.repo)

    @property
    def name(self) -> str:
        """Return the model's name as tables show it."""
        name = self.folder.resolve().name if self.folder else self.source
        return f"random weights: {name}" if self.test_weights else name

    @property
    def location(self) -> Location:
        """Return the location for messages about exceptions of `from_pretrained`."""
        return Location(self.source, self.folder)

    def weights(self) -> Weights:
        """Return what a run shows of the weights, and how to download them if they are not on this machine."""
        return Weights(self.published.name, self.source, self.licence, self._fetch, self.test_weights)

    @property
    def licence(self) -> str:
        """Return a text about the licence; test weights have none.

        For a folder or a repository other than the published one, it names the published model's licence and says so.
        """
        if self.test_weights:
            return "none: random weights, for tests"
        is_published = self.folder is None and self.source == self.published.repo
        return self.published.licence if is_published else f"your copy; as published: {self.published.licence}"

    @property
    def _fetch(self) -> str:
        if self.folder is not None or _snapshot(self.source, self.revision) is not None:
            return ""
        at = f" --revision {self.revision}" if self.revision else ""
        return f"`hf download {self.source}{at}` ({self.published.gigabytes} GB) where the hub can be reached"

    def commit(self, suffixes: Sequence[str] = ()) -> str:
        """Return the hub's commit, or the hash of the folder's content; HarnessError if a hub model is not found.

        suffixes   endings of more files to hash, e.g. ".pth" (see `folder_hash`)
        """
        if self.folder is not None:
            return folder_hash(self.folder, suffixes)
        snapshot = _snapshot(self.source, self.revision)
        if snapshot is None:
            raise HarnessError(f"{self.component}: {self.weights()} is not on this machine: {self._fetch}")
        return snapshot

    def check_folder(self, sizes: Callable[[Mapping[str, Any]], Mapping[str, int]]) -> None:
        """Raise HarnessError for a folder whose config has no published size; all else passes.

        sizes   returns, from a config (parsed JSON), the values that are compared with the published sizes
        """
        config = (self.folder or Path()) / "config.json"
        if self.folder is None or not config.is_file():
            return  # the config of a hub model is checked when it is loaded
        try:
            self.check_size(sizes(read(config, self.component, lenient=True)))
        except (ValueError, KeyError, TypeError) as failure:
            raise HarnessError(
                f"{self.component}: {config} is none of {self.published.name} ({failure!r:.100})"
            ) from failure

    @property
    def pinned(self) -> dict[str, object]:
        """Return the arguments of `from_pretrained` besides the source, so that all parts come from one commit."""
        if self.folder is not None:
            return {"local_files_only": True}
        return {"revision": self.commit(), "local_files_only": _out_of_reach()}

    def check_size(self, sizes: Mapping[str, int]) -> None:
        """Raise HarnessError if these values of a config match no published size; `test_weights` allows all."""
        if self.test_weights or any(sizes.items() >= size.items() for size in map(dict, self.published.sizes)):
            return
        listed = ", ".join(f"{name} {value}" for name, value in sizes.items())
        raise HarnessError(
            f"{self.component}: {self.source} has {listed}, as no published {self.published.name} has: is it random? "
            "test_weights=true runs it, and marks all that it makes"
        )


@lru_cache(maxsize=16)
def _snapshot(repo: str, revision: str | None) -> str | None:
    """Return the commit of a repository's revision, from the hub or else from its cache; None if neither has it."""
    local = _out_of_reach()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:  # without patterns nothing is downloaded, only the commit is looked up
        return Path(snapshot_download(repo, revision=revision, allow_patterns=[], local_files_only=local)).name
    except HFValidationError as failure:
        raise HarnessError(f"model {repo!r} is no folder here and no hub id ({str(failure)[:100]})") from failure
    except (OSError, HfHubHTTPError):
        return None


@cache
def _out_of_reach() -> bool:
    """Return whether the hub cannot be reached; cached, so that three models do not wait three times."""
    return hub_is_out_of_reach()


def folder_hash(folder: Path, suffixes: Sequence[str] = ()) -> str:
    """Return a hash (16 hex digits) of a checkpoint's folder.

    It covers what `content_hash` covers, and all files at any depth whose names end with one of `suffixes`.
    """
    digest = hashlib.sha256(content_hash(folder).encode())
    files = sorted(path for suffix in suffixes for path in folder.rglob(f"*{suffix}") if path.is_file())
    for path, hashed in zip(files, file_hashes(files, f"model folder {folder.name}"), strict=True):
        digest.update(f"{path.relative_to(folder)} {hashed}\n".encode())
    return digest.hexdigest()[:16]
