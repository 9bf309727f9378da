"""Read and write one dataset repository of the Hugging Face hub; every error is one line.

The hub's client handles the token (`hf auth login`, `HF_TOKEN`): this module only checks that there is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import HarnessError
from harness.system.extras import hub_is_out_of_reach

ANSWER_S = 30.0


@dataclass(frozen=True)
class Snapshot:
    """A repository at one commit: the sizes in bytes of its files, by path."""

    commit: str
    private: bool
    files: Mapping[str, int]


class HubDataset:
    """A dataset repository of the hub; HarnessError if `repo` is not OWNER/NAME or the hub is out of reach.

    doing   the command, e.g. "pool push"; every error message starts with it
    """

    def __init__(self, repo: str, doing: str) -> None:
        from huggingface_hub import HfApi, constants
        from huggingface_hub.utils import disable_progress_bars

        self.repo, self.doing = repo, f"{doing} {repo}"
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo, re.ASCII):
            raise HarnessError(f"{doing}: a repository is OWNER/NAME, got {repo!r}")
        self.api = HfApi(library_name="diversity-harness", library_version=__version__)
        self.endpoint: str = constants.ENDPOINT
        if not sys.stderr.isatty():
            disable_progress_bars()
        if hub_is_out_of_reach():
            raise HarnessError(
                f"{self.doing}: {self.endpoint} is out of reach (HF_ENDPOINT and HF_HUB_OFFLINE say more)"
            )

    def require_token(self) -> None:
        """Raise HarnessError if the hub's client has no token."""
        from huggingface_hub import get_token

        if not get_token():
            raise HarnessError(f"{self.doing}: no token to write with: run `hf auth login`, or set HF_TOKEN")

    def create(self, private: bool) -> None:
        """Create the repository, private or public, if it does not exist; an existing one is not changed."""
        with self.one_line():
            self.api.create_repo(self.repo, repo_type="dataset", private=private, exist_ok=True)

    def snapshot(self, revision: str | None = None) -> Snapshot:
        """Return the content of the repository at a branch, tag or commit; None: at the newest commit."""
        with self.one_line():
            info = self.api.dataset_info(self.repo, revision=revision, files_metadata=True, timeout=ANSWER_S)
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        return Snapshot(str(info.sha), bool(info.private), files)

    def snapshot_if_there(self) -> Snapshot | None:
        """Return the newest snapshot, or None if the repository does not exist or this token cannot see it."""
        from huggingface_hub.errors import RepositoryNotFoundError

        try:
            return self.snapshot()
        except HarnessError as failure:
            if isinstance(failure.__cause__, RepositoryNotFoundError):
                return None
            raise

    def fetch(self, commit: str, wanted: str, unwanted: Sequence[str], into: Path) -> None:
        """Download the files of a commit that match a pattern to the same paths below `into`, but for those there."""
        with self.one_line():
            self.api.snapshot_download(
                self.repo,
                repo_type="dataset",
                revision=commit,
                local_dir=into,
                allow_patterns=[wanted],
                ignore_patterns=list(unwanted),
            )

    def commit(self, add: Mapping[str, Path | bytes], delete: Sequence[str], message: str, parent: str) -> str:
        """Add and delete files in one atomic commit on top of the commit `parent`; return the new commit's id.

        add      path in the repository -> local file or content
        delete   paths in the repository

        HarnessError if the repository has a newer commit than `parent`.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        operations: list[Any] = [CommitOperationDelete(path) for path in delete]
        operations += [CommitOperationAdd(path, source) for path, source in add.items()]
        with self.one_line():
            commit = self.api.create_commit(
                self.repo, operations, commit_message=message, repo_type="dataset", parent_commit=parent
            )
        return str(commit.oid)

    @contextmanager
    def one_line(self) -> Iterator[None]:
        """Turn any exception inside into a HarnessError of one line that begins with the command and the repository."""
        try:
            yield
        except HarnessError as failure:
            raise HarnessError(f"{self.doing}: {failure}") from failure
        except Exception as failure:
            raise HarnessError(f"{self.doing}: {_message(failure)}") from failure


def _message(failure: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(failure, errors.HFValidationError):
        return f"no name that the hub takes ({_first_line(failure)})"
    if isinstance(failure, errors.GatedRepoError):
        return "the repository is gated: accept its terms on its page first"
    if isinstance(failure, errors.RepositoryNotFoundError):
        return "no such dataset repository, or a private one that this token may not see"
    if isinstance(failure, errors.RevisionNotFoundError):
        return "the repository has no such revision"
    status = failure.response.status_code if isinstance(failure, errors.HfHubHTTPError) else None
    if status in (401, 403):
        return f"the token may not do that (HTTP {status}): it must be allowed to write to this repository"
    if status in (409, 412):
        return "somebody else has changed the repository meanwhile: run the same command again"
    if isinstance(failure, ValueError):  # the hub refuses what it was sent, e.g. the card's licence
        return " ".join(str(failure).split())[:300]
    return f"{_first_line(failure)}; run the same command again to go on"


def _first_line(failure: BaseException) -> str:
    """The type and first line of the exception or its cause, without URLs, which may contain signatures."""
    cause = failure.__cause__ or failure
    lines = [line for line in str(cause).splitlines() if line.strip()] or [""]
    words = ["(address)" if "://" in word else word for word in lines[0].split()]
    return f"{type(cause).__name__}: {' '.join(words)}"[:200]
