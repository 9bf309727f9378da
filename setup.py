"""Make the links of README.md absolute for PyPI, which shows it alone; the rest is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
ADDRESS = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["urls"]["Repository"]

setup(
    long_description=re.sub(r"\]\((?!https?:|#)", f"]({ADDRESS}/blob/main/", (HERE / "README.md").read_text()),
    long_description_content_type="text/markdown",
)
