"""Distributions as pip installs them: a module and its .dist-info in one folder."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent


def write_distribution(site: Path, name: str, version: str, source: str, entry: str = "") -> None:
    """Write a distribution of one module with one entry point of group `harness`, named `entry` or as the module."""
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(dedent(source))
    folder = site / f"{module}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(f"[harness]\n{entry or module} = {module}\n")
