"""The command line: the commands that work, those that read, and the tables that they print."""

from . import run_commands, read_commands  # noqa: F401, I001  (in the order of --help)
from .app import complete as complete
from .app import main as main
