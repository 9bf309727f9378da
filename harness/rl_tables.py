"""What `harness rl` prints."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from .rl import Prepared

TRAINED = ("task", "bonus", "trainer", "seed", "steps", "best_step", "dev_pass_at_1", "hours", "folder")


def launch(prepared: Prepared) -> None:
    """The configuration, what the checks had to say, and last the command that would be started."""
    print(prepared.launch.config.rstrip())
    for remark in (*prepared.remarks, f"folder: {prepared.run.folder}"):
        print(f"# {remark}")
    added = [f"{name}={shlex.quote(value)}" for name, value in prepared.launch.environment.items()]
    print("#", " ".join([*added, shlex.join(prepared.launch.command)]))


def trained(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """A row a run."""
    show(rows, TRAINED, as_json)


def evaluated(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """A row a method: pass@k in percent with its standard error, and how many times fewer samples it needs."""
    if as_json:
        return show(rows, (), as_json)
    ks = [k for k in rows[0]["pass_at_k"] if k in ("1", "4", "16", "64", "256") or int(k) == rows[0]["n"]]
    others = [row["bonus"] for row in rows]
    table = Table("bonus", "seeds", *(f"pass@{k}" for k in ks), *(f"vs {other}" for other in others))
    for row in rows:
        fewer = (row["fewer_samples_than"].get(other) for other in others)
        table.add_row(
            row["bonus"],
            str(row["seeds"]),
            *(_share(row, k) for k in ks),
            *("-" if times is None else f"{times:.2g}x" for times in fewer),
        )
    first = rows[0]
    table.caption = (
        f"{first['task']}, {first['split']}: {first['problems']} problems, n = {first['n']}; "
        "vs: how many times fewer samples reach that method's last pass@k"
    )
    Console().print(table)


def _share(row: Mapping[str, Any], k: str) -> str:
    error = row["standard_error"]
    return f"{100 * row['pass_at_k'][k]:.1f}" + (f" ± {100 * error[k]:.1f}" if error else "")


def show(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Rows as JSON, whole, or as a table of some columns."""
    if as_json:
        print(json.dumps(list(rows), indent=1, ensure_ascii=False, allow_nan=False))
        return
    table = Table(*[name.replace("_", " ").replace("pass at ", "pass@") for name in columns])
    for row in rows:
        table.add_row(*(_text(row.get(name)) for name in columns))
    Console().print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
