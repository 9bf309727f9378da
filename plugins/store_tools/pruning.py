"""`harness store prune`: delete the stages that no cell needs.

Responses go last. In a folder goes first what says that it is complete, and last the manifest. So after a kill the next
run makes what is missing, and the next `prune` deletes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.store import in_use
from harness.system.files import disk_errors
from harness.system.progress import Progress

from . import contents, listing, usage
from .contents import MANIFEST, Stage
from .usage import AGAIN, COSTLY

FIRST, LAST = "index.json", MANIFEST  # a pool's index says that all of it is there
RESPONSES = ("pool", "sequence")  # deleted last: a shard that was made from a response says that it is there


def prune(root: Path, pools: bool, yes: bool, progress: Progress) -> dict[str, Any]:
    """List what no cell needs, and delete it if `yes`; HarnessError if that is not known, or the store is in use.

    pools  also what is costly: unused pools and sequences, their hidden states, measurements, what came from a file

    Return a dict:
    store    the store's folder
    deleted  whether the files are deleted
    rows     a dict of each folder: stage, key, task, model, files, bytes, when "last_used", whether it is "costly"
             (deleted only with `pools`), and whether it "goes"
    """
    contents.require_store(root)
    with in_use.alone(root, "store prune") if yes else nullcontext():
        stages = sorted(contents.stages(root), key=lambda stage: stage.kind in RESPONSES)
        needs = usage.needs_of(root)
        for fault in needs.faults:
            raise HarnessError(f"{fault}; so it is not known what can be deleted")
        states, labels = usage.states_of(root, stages, needs), listing.labels_of(stages, needs)
        unused = [stage for stage in stages if states[stage.folder] in (AGAIN, COSTLY)]
        if yes and (going := [stage for stage in unused if pools or states[stage.folder] == AGAIN]):
            _delete(going, progress)
    rows = [
        {
            "stage": stage.kind,
            "key": stage.key,
            "task": labels[stage.folder][0],
            "model": labels[stage.folder][1],
            "files": stage.files,
            "bytes": stage.size,
            "last_used": listing.moment(stage.last_used),
            "costly": states[stage.folder] == COSTLY,
            "goes": pools or states[stage.folder] == AGAIN,
        }
        for stage in sorted(unused, key=lambda stage: labels[stage.folder])
    ]
    return {"store": str(root), "deleted": yes, "rows": rows}


def _delete(stages: Sequence[Stage], progress: Progress) -> None:
    with progress.stage("delete", sum(stage.files for stage in stages), "files") as shown:
        for stage in stages:
            names = [entry.name for entry in contents.own_files(stage.folder, stage.kind)]
            for name in sorted(names, key=lambda name: (name == LAST, name != FIRST)):
                with disk_errors(stage.folder / name):
                    (stage.folder / name).unlink(missing_ok=True)
                shown.advance()
            with suppress(OSError):  # a file that is not the store's own stays, and its folder
                stage.folder.rmdir()
