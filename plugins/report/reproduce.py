"""The commands that make a report's cells again: from the options that they record, else from labels and inputs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from harness.results.inert_text import without_folders
from harness.system.json_text import canonical_json

from .chosen import Cell
from .visible import visible


def commands(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return {"lines", "recorded"}: a command of the shell for each set of options, and whether cells record them.

    Cells of older versions record no options; the commands then say what their keys and labels do.
    """
    groups: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for cell in cells:
        options = without_folders(cell.content.get("config") or _inferred(cell.content, cells))
        selectors = options.pop("selector", [cell.content["labels"]["selector"]])
        groups.setdefault(canonical_json(options), (options, []))[1].extend(map(str, selectors))
    lines = [_command({**options, "selector": selectors}) for options, selectors in groups.values()]
    return {"lines": lines, "recorded": all(cell.content.get("config") for cell in cells)}


def _command(options: Mapping[str, Any]) -> str:
    words = ["harness", "run"]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            if each is not False and each is not None:
                words += [option] if each is True else [option, str(each)]
    return " ".join(shlex.quote(visible(word).replace("\n", " ")) for word in words)


def _inferred(cell: Mapping[str, Any], cells: Sequence[Cell]) -> dict[str, Any]:
    """The options that a cell's labels and inputs show; those of a pool file lack its path."""
    labels, inputs = cell["labels"], cell["inputs"]
    embedders = [str(other.content["labels"]["embedder"]) for other in cells]
    read = [labels["embedder"], *embedders]  # a selector that reads no vectors joins the others' command
    embedder = next((name for name in read if name != "none"), None)
    sampled = {"task": labels["task"], "split": labels["split"], "model": labels["model"], "sampler": labels["sampler"]}
    imported = {"pool": "POOL_FILE"} | ({} if labels["task"] == "pool" else {"task": labels["task"]})
    source = imported if labels["engine"] == "pool" else sampled
    if labels["engine"] not in ("pool", "transformers"):
        source["engine"] = labels["engine"]
    ranked = {"embedder": embedder, "limit": len(cell["problems"]), "trials": labels["trials"], "seed": labels["seed"]}
    size = {"n": inputs["ranking"].get("n") or inputs["pool"].get("n"), "max_tokens": inputs["pool"].get("max_tokens")}
    return {**source, **size, **ranked}
