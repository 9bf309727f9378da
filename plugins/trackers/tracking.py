"""Trackers `wandb` and `trackio`: a run's scalars, table and report in Weights & Biases, or in a local database.

Both libraries have the same interface for what is used here. Each row of the table is one step: its metrics are logged
as `TASK/MODEL/SAMPLER/EMBEDDER/SELECTOR/metric`. The table is logged as `table`, the report as an artefact of type
"report". Both need the extra `tracking` (`pip install 'diversity-harness[tracking]'`).

    harness run --task game24 --selector repexp --track trackio
    harness run --task game24 --selector repexp --track wandb:project=diversity,mode=offline

trackio (Abid et al., https://github.com/gradio-app/trackio) keeps a SQLite file under TRACKIO_DIR and needs no account;
`trackio show` opens it. wandb (https://docs.wandb.ai) sends to its server unless mode=offline, which writes a folder
that `wandb sync` sends later. The text of responses is sent only in the report.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness import hookimpl
from harness.system import extras


@dataclass
class Tracked:
    """The part that both trackers share: a run of a project, which gets scalars, a table and a file.

    name    of the tracker's run; None: the library chooses one
    group   under which the library shows several runs together; None: no group
    """

    project: str = "diversity-harness"
    name: str | None = None
    group: str | None = None

    _run: Any = field(default=None, init=False, repr=False)
    _library: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        self._library = type(self).__name__.lower()
        extras.require(f"tracker {self._library!r}", self._library)

    def start(self, settings: Mapping[str, Any]) -> None:
        """Begin a run with these settings."""
        options = {"project": self.project, "name": self.name, "group": self.group, "config": dict(settings)}
        self._run = self._module().init(**options, **self._options())

    def row(self, name: str, scalars: Mapping[str, float]) -> None:
        """Log one step: each metric of a row as `NAME/METRIC`, NAME being the row's name."""
        self._run.log({f"{name}/{metric}": value for metric, value in scalars.items()})

    def table(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log all rows as one table."""
        columns = list(rows[0])
        data = [[row[column] for column in columns] for row in rows]
        self._run.log({"table": self._module().Table(columns=columns, data=data)})

    def report(self, path: Path) -> None:
        """Log the report, one HTML file, as an artefact."""
        artefact = self._module().Artifact("report", type="report")
        artefact.add_file(str(path))
        self._run.log_artifact(artefact)

    def finish(self, failed: bool) -> None:
        """End the tracker's run, if `start` began one, and wait until all is written; wandb also records `failed`."""
        if self._run is not None:
            self._module().finish(**self._ended(failed))  # also makes the module forget the run: it ends once

    def _module(self) -> Any:
        return importlib.import_module(self._library)

    def _options(self) -> dict[str, Any]:
        return {}

    def _ended(self, failed: bool) -> dict[str, Any]:
        return {}


@dataclass
class Wandb(Tracked):
    """Weights & Biases.

    `entity`: the user or team that has the project. `mode`: online, offline or disabled, by default the value of
    WANDB_MODE. `dir`: the folder that it writes to.
    """

    entity: str | None = None
    mode: Literal["online", "offline", "disabled"] | None = None
    dir: str | None = None

    def _options(self) -> dict[str, Any]:
        # Console capture would wrap the streams that tables and progress are printed on.
        settings = self._module().Settings(console="off", silent=True)
        return {"entity": self.entity, "mode": self.mode, "dir": self.dir, "settings": settings}

    def _ended(self, failed: bool) -> dict[str, Any]:
        return {"exit_code": int(failed)}


@dataclass
class Trackio(Tracked):
    """trackio, in a local database; `space_id`: a Hugging Face Space to send to instead."""

    space_id: str | None = None

    def _options(self) -> dict[str, Any]:
        # A monitor of the machine would add a thread, and rows that are not part of the results.
        return {"space_id": self.space_id, "embed": False, "auto_log_gpu": False, "auto_log_cpu": False}


@hookimpl
def register_trackers(register: Any) -> None:
    """Register the built-in trackers."""
    register("wandb", "harness_plugins.trackers.tracking:Wandb")
    register("trackio", "harness_plugins.trackers.tracking:Trackio")
